#include "train/trainer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "runs/record.h"
#include "storage/storage.h"
#include "sullae/torch/parallel.h"
#include "sullae/train/fit.h"
#include "torch/agreement.h"
#include "train/alike.h"
#include "train/export.h"
#include "train/loop.h"
#include "train/monitor/monitors.h"
#include "train/trained_on.h"

namespace sullae::train {
namespace {

void require_samples(const Data& data) {
  if (data.size(Split::train) == 0) throw InputError("there are no samples to train on");
}

// It becomes part of file names.
void check_name(const std::string& name) {
  static constexpr std::string_view kOthers = "_-.";
  const bool good = !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kOthers.find(c) != kOthers.npos;
  });
  if (!good)
    throw InputError(
        fmt::format("fit: the name '{}': expected letters, digits, '_', '-' and '.'", name));
}

// Ranks wait for each other within a step then.
bool synchronizes_norms(const torch::nn::Module& model) {
  const auto is_one = [](const torch::nn::Module& module) {
    return dynamic_cast<const SyncBatchNorm2dImpl*>(&module) != nullptr;
  };
  // Not with itself, which libtorch wants to be owned by a shared_ptr.
  const auto parts = model.modules(/*include_self=*/false);
  return is_one(model) ||
         std::ranges::any_of(parts, [&](const auto& part) { return is_one(*part); });
}

auto steps_of(const Data& data) {
  return [&data](const World& world, const TrainOptions& options, Position begun) {
    return std::make_unique<StepPlan>(data.size(Split::train), options, world.rank(), world.size(),
                                      begun);
  };
}

std::function<std::vector<std::unique_ptr<Observer>>(int)> monitors_of(
    const TrainOptions& options) {
  return [&options](int rank) {
    return make_monitors(options, rank);
  };
}

// Before data are read, which may take long. The first rank makes the folder, and so is the one
// that looks; in an elastic job any may be it, and none is yet.
void check_run_dir(const TrainOptions& options, const World& world) {
  if (options.run_dir.empty() || options.resume) return;
  if (elastic::is_elastic() || world.rank() == 0) runs::expect_new_run(options.run_dir);
}

// By the rank that would write there, rather than at the end of a training. What begins with a dot
// is no model.
void check_store(const RecipeOptions& options, const World& world) {
  if (!storage::is_remote(options.export_dir)) return;
  if (!elastic::is_elastic() && world.rank() != 0) return;
  const auto file = options.export_dir / ".writable";
  storage::write_file(file, "");
  storage::remove(file);
}

bool has_batch_norms(const torch::nn::Module& model) {
  return std::ranges::any_of(model.modules(/*include_self=*/false), [](const auto& module) {
    return dynamic_cast<const torch::nn::BatchNorm2dImpl*>(module.get()) != nullptr;
  });
}

std::filesystem::path export_folder(const RecipeOptions& options, const Recipe& recipe) {
  return options.export_dir / (options.export_name.empty() ? recipe.name() : options.export_name);
}

// The weights as they are now, as a version of a model repository.
void export_model(Loop& loop, const Recipe& recipe, const RecipeOptions& options,
                  const ModelDescription& description) {
  if (!loop.is_root()) return loop.save_weights({}, {});
  CheckpointMetadata metadata;
  add_configuration(metadata, options.configuration);
  add_description(metadata, description);
  const auto exported =
      export_version(options.export_dir, export_folder(options, recipe).filename().string(),
                     [&](const std::filesystem::path& file) { loop.save_weights(file, metadata); });
  loop.note(fmt::format("exported as {}: `sullae serve {}` serves it", exported.string(),
                        options.export_dir.string()));
}

}  // namespace

std::optional<Report> train(const Recipe& recipe, const RecipeOptions& options,
                            const World* world) {
  RecipeOptions checked = options;
  const World alone = world != nullptr ? *world : World::create({});
  if (world == nullptr) check_elastic(checked);
  check_same_options(checked, alone);
  check_options(checked, world != nullptr ? world->size() : elastic::most_ranks());
  check_run_dir(checked, alone);
  check_store(checked, alone);
  const auto task = make_task(recipe, checked, alone);
  // Files that changed meanwhile, a topic that was compacted.
  check_same_samples(task->size(Split::train), task->size(Split::test), alone);
  require_samples(*task);
  if (!checked.export_dir.empty())
    on_root(alone, 0, [&] { check_replaces(export_folder(checked, recipe), task->description()); });
  const auto objective = task->objective(checked.label_smoothing);
  const auto model = task->model();
  if (checked.sync_batch_norm && !has_batch_norms(*model))
    throw InputError(
        fmt::format("--sync-batch-norm: {}'s network has no batch norms", recipe.name()));
  Loop loop({.model = *model,
             .objective = *objective,
             .data = *task,
             .plan = steps_of(*task),
             .name = recipe.name(),
             .monitors = monitors_of(checked),
             .observers = {},
             .describe =
                 [&](CheckpointMetadata& metadata) {
                   add_description(metadata, task->description());
                 }},
            checked);
  if (world != nullptr) {
    loop.run(*world);
  } else if (loop.run_elastic() == elastic::Outcome::left) {
    return std::nullopt;
  }
  if (!checked.export_dir.empty() && loop.has_diverged())
    throw Error("--export: the loss is no number any more, and the weights are not exported");
  if (!checked.export_dir.empty()) export_model(loop, recipe, checked, task->description());
  return loop.report();
}

Report train(const Recipe& recipe, const RecipeOptions& options, const World& world) {
  return *train(recipe, options, &world);
}

std::optional<Report> train_elastic(const Recipe& recipe, const RecipeOptions& options) {
  return train(recipe, options, nullptr);
}

Report fit(torch::nn::Module& model, const Objective& objective, Data& data,
           const TrainOptions& options, const std::string& name,
           const std::vector<Observer*>& observers, const World& world) {
  TrainOptions checked = options;
  check_name(name);
  if (!elastic::is_elastic()) {
    check_same_options(checked, world);
    check_same_samples(data.size(Split::train), data.size(Split::test), world);
  }
  // A stage may have none.
  std::int64_t has_some = synchronizes_norms(model) ? 1 : 0;
  if (!elastic::is_elastic() && divides_model(checked))
    world.allreduce(&has_some, &has_some, 1, DataType::int64, ReduceOp::max);
  const bool synchronizes = has_some != 0;
  if (checked.sync_batch_norm && !synchronizes)
    throw InputError("--sync-batch-norm: the model has no SyncBatchNorm2d");
  checked.sync_batch_norm = synchronizes;
  check_options(checked, world.size());
  check_run_dir(checked, world);
  require_samples(data);
  Loop loop({.model = model,
             .objective = objective,
             .data = data,
             .plan = steps_of(data),
             .name = name,
             .monitors = monitors_of(checked),
             .observers = observers,
             .describe = {},
             .tests = data.size(Split::test) > 0},
            checked);
  if (!elastic::is_elastic()) return loop.run(world);
  if (loop.run_elastic() == elastic::Outcome::left)
    throw Error("fit: this process was asked to go, and the other ranks train on");
  return loop.report();
}

}  // namespace sullae::train
