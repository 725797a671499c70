// Options that would change nothing.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "sullae/error.h"
#include "train/options.h"

namespace sullae::train {
namespace {

bool is_one_of(const std::string& value, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return value == name; });
}

// Throws where `value` was changed, and would be of use only with others.
template <class Value>
void check_used(const char* name, const Value& value, const Value& by_default, bool is_used,
                const std::string& expected) {
  if (is_used || value == by_default) return;
  throw InputError(fmt::format("--{} {}: changes nothing here: it is {}", name, value, expected));
}

}  // namespace

void check_all_used(const TrainOptions& options, const TrainOptions& defaults) {
  const bool has_momentum = is_one_of(options.optimizer, {"sgd", "lars"});
  const std::string of_momentum =
      fmt::format("for --optimizer sgd and lars, and not {}", options.optimizer);
  check_used("momentum", options.momentum, defaults.momentum, has_momentum || options.momentum == 0,
             of_momentum);
  check_used("nesterov", options.nesterov, defaults.nesterov, has_momentum, of_momentum);
  const bool has_betas = is_one_of(options.optimizer, {"adam", "adamw", "lamb"});
  const std::string of_betas =
      fmt::format("for --optimizer adam, adamw and lamb, and not {}", options.optimizer);
  check_used("beta1", options.beta1, defaults.beta1, has_betas, of_betas);
  check_used("beta2", options.beta2, defaults.beta2, has_betas, of_betas);
  check_used("trust-coefficient", options.trust_coefficient, defaults.trust_coefficient,
             options.optimizer == "lars",
             fmt::format("for --optimizer lars, and not {}", options.optimizer));
  const auto of_schedule = [&](const char* schedules) {
    return fmt::format("for --lr-schedule {}, and not {}", schedules, options.lr_schedule);
  };
  check_used("end-lr", options.end_lr, defaults.end_lr,
             is_one_of(options.lr_schedule, {"linear", "cosine", "polynomial"}),
             of_schedule("linear, cosine and polynomial"));
  check_used("lr-power", options.lr_power, defaults.lr_power, options.lr_schedule == "polynomial",
             of_schedule("polynomial"));
  check_used("lr-steps", options.lr_steps, defaults.lr_steps, options.lr_schedule == "step",
             of_schedule("step"));
  check_used("lr-gamma", options.lr_gamma, defaults.lr_gamma, options.lr_schedule == "step",
             of_schedule("step"));
  check_used("warmup-lr", options.warmup_lr, defaults.warmup_lr, options.warmup_epochs > 0,
             "where a warm-up starts, and there is none (--warmup-epochs)");
  const bool saves = !options.checkpoint_dir.empty();
  const std::string of_folder = "for checkpoints, of which there are none (--checkpoint-dir)";
  check_used("keep-checkpoints", options.keep_checkpoints, defaults.keep_checkpoints, saves,
             of_folder);
  check_used("checkpoint-steps", options.checkpoint_steps, defaults.checkpoint_steps, saves,
             of_folder);
  check_used("allreduce-precision", options.allreduce_precision, defaults.allreduce_precision,
             options.precision != "float32",
             "for --precision bfloat16 and float16, and gradients are float32 here");
}

}  // namespace sullae::train
