#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "sullae/error.h"

namespace sullae::train {
namespace {

// The rate after the warm-up: `part` of the way from its end to that of the training, in [0, 1),
// and the epoch, with its fraction.
using Course = std::function<double(double part, double epoch)>;

double between(const TrainOptions& o, double share) { return o.end_lr + (o.lr - o.end_lr) * share; }

std::vector<double> parse_epochs(const std::string& text) {
  std::vector<double> epochs;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    double epoch = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), epoch);
    if (error != std::errc{} || !(epoch > 0 && std::isfinite(epoch)) ||
        (end != text.data() + text.size() && *end != ','))
      throw InputError(fmt::format("--lr-steps {}: expected epochs, as in 30,60,80", text));
    epochs.push_back(epoch);
    at = end + 1;
  }
  return epochs;
}

Course constant(const TrainOptions& o) {
  return [&o](double, double) {
    return o.lr;
  };
}
Course linear(const TrainOptions& o) {
  return [&o](double part, double) {
    return between(o, 1 - part);
  };
}
Course cosine(const TrainOptions& o) {
  return [&o](double part, double) {
    return between(o, 0.5 * (1 + std::cos(std::numbers::pi * part)));
  };
}
Course polynomial(const TrainOptions& o) {
  return [&o](double part, double) {
    return between(o, std::pow(1 - part, o.lr_power));
  };
}
Course step(const TrainOptions& o) {
  const auto epochs = parse_epochs(o.lr_steps);
  if (epochs.empty()) throw InputError("--lr-schedule step: needs --lr-steps, as in 30,60,80");
  return [&o, epochs](double, double epoch) {
    const auto passed = std::ranges::count_if(epochs, [&](double e) { return epoch >= e; });
    return o.lr * std::pow(o.lr_gamma, static_cast<double>(passed));
  };
}

struct NamedCourse {
  const char* name;
  Course (*make)(const TrainOptions&);
};
constexpr NamedCourse kCourses[] = {{"constant", constant},
                                    {"linear", linear},
                                    {"cosine", cosine},
                                    {"polynomial", polynomial},
                                    {"step", step}};

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const NamedCourse& course : kCourses) names.emplace_back(course.name);
  return names;
}

Schedule make_schedule(const TrainOptions& options, std::int64_t steps_per_epoch) {
  const auto found = std::ranges::find_if(
      kCourses, [&](const NamedCourse& course) { return options.lr_schedule == course.name; });
  if (found == std::end(kCourses)) {
    throw InputError(fmt::format("--lr-schedule {}: expected one of {}", options.lr_schedule,
                                 fmt::join(schedule_names(), ", ")));
  }
  // The courses refer to the options, which the schedule therefore owns.
  const auto owned = std::make_shared<const TrainOptions>(options);
  const auto per_epoch = static_cast<double>(std::max<std::int64_t>(steps_per_epoch, 1));
  return [owned, per_epoch, course = found->make(*owned)](std::int64_t step) {
    const double epoch = static_cast<double>(step) / per_epoch;
    if (epoch < owned->warmup_epochs) {
      return owned->warmup_lr + (owned->lr - owned->warmup_lr) * epoch / owned->warmup_epochs;
    }
    const double rest = owned->epochs - owned->warmup_epochs;
    const double part = rest > 0 ? std::min((epoch - owned->warmup_epochs) / rest, 1.0) : 0;
    return course(part, epoch);
  };
}

}  // namespace sullae::train
