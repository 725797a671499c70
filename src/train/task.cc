#include "train/task.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch/checkpoint.h"
#include "sullae/train/units.h"
#include "train/division.h"
#include "train/find_model.h"

namespace sullae::train {

namespace {

// What was asked for of a model that is there: its sizes are what they are, and no number of a
// dropout is in its weights.
void take_given(const Recipe& recipe, const RecipeOptions& options, const std::string& file,
                ModelDescription& known) {
  for (const ExtraOption& option : recipe.extra_options()) {
    const auto given = options.extra.find(option.flag);
    const auto there = known.numbers.find(option.flag);
    if (given == options.extra.end() || there == known.numbers.end() ||
        given->second == there->second)
      continue;
    // As the default, but not where that was said.
    if (given->second == option.value && !options.given.contains(option.flag)) continue;
    if (option.flag != "dropout")
      throw InputError(
          fmt::format("--{} {}: the model of --init-from {} has {}: expected that, or "
                      "nothing",
                      option.flag, given->second, file, there->second));
    there->second = given->second;
  }
}

void check_extra(const Recipe& recipe, const RecipeOptions& options) {
  for (const ExtraOption& option : recipe.extra_options()) {
    const auto given = options.extra.find(option.flag);
    if (given != options.extra.end()) option.check(given->second);
  }
}

}  // namespace

void ExtraOption::check(double given) const {
  const bool is_whole = given == std::floor(given) && std::isfinite(given);
  const auto require = [&](bool holds, const char* expected) {
    if (!holds) throw InputError(fmt::format("--{} {}: expected {}", flag, given, expected));
  };
  switch (takes) {
    case Takes::count:
      return require(is_whole && given >= 1, "a whole number of 1 or more");
    case Takes::count_or_0:
      return require(is_whole && given >= 0, "a whole number of 0 or more");
    case Takes::part:
      return require(given >= 0 && given < 1, "0 to less than 1");
    case Takes::truth:
      return require(given == 0 || given == 1, "0 or 1");
  }
}

Classification classification(double label_smoothing) {
  return Classification(
      [](torch::nn::Module& model, const Batch& batch) {
        return dynamic_cast<Classifier&>(model).scores(batch);
      },
      label_smoothing);
}

std::unique_ptr<Objective> Task::objective(double label_smoothing) const {
  return std::make_unique<Classification>(classification(label_smoothing));
}

std::int64_t label_of(const AddedSample& sample, const ModelDescription& description) {
  const auto label = description.class_number(sample.label);
  if (!label)
    throw InputError(
        fmt::format("a sample has the label '{}', which the model does not know", sample.label));
  return *label;
}

void check_label(std::int64_t label, std::int64_t classes, const std::string& place) {
  if (label < 0 || label >= classes)
    throw InputError(
        fmt::format("{}: has a label {}, and the model has {} classes", place, label, classes));
}

std::unique_ptr<Task> make_task(const Recipe& recipe, const RecipeOptions& options,
                                const World& world) {
  // Rank 0's are then everybody's.
  torch::manual_seed(options.seed);
  check_extra(recipe, options);
  if (options.init_from.empty()) return recipe.make(options, world, nullptr);
  const auto file = find_model(options.init_from).file;
  auto known = description_of(read_checkpoint_metadata(file), file.string());
  if (known.recipe != recipe.name())
    throw InputError(fmt::format("--init-from {}: is a model of 'sullae train {}', not of '{}'",
                                 file.string(), known.recipe, recipe.name()));
  take_given(recipe, options, file.string(), known);
  auto task = recipe.make(options, world, &known);
  const auto model = task->model();
  ShardedUnits* const units = units_of(*model);
  if (units != nullptr && is_in_parts(*model))
    load_weights(file, *model, *units, world);
  else if (units != nullptr)
    load_weights(file, *model, *units);
  else if (is_in_parts(*model))
    load_weights(file, *model, *Ranks(options, world).model);
  else
    load_checkpoint(file, *model);
  return task;
}

Refinement Recipe::refine(const ModelDescription&, const RecipeOptions&,
                          const std::vector<AddedSample>&, const World&) const {
  throw InputError(fmt::format("models of the recipe {} are not trained further", name()));
}

}  // namespace sullae::train
