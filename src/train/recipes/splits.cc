#include "train/recipes/splits.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/parts.h"
#include "storage/storage.h"
#include "sullae/error.h"

namespace sullae::train {
namespace {

namespace fs = std::filesystem;

std::pair<data::DatasetPtr, data::DatasetPtr> hold_out(const data::DatasetPtr& all,
                                                       std::uint64_t seed) {
  constexpr std::size_t kPart = 10;
  const auto order = data::epoch_order(all->size(), {.seed = seed}, 0);
  std::vector<std::size_t> train;
  std::vector<std::size_t> test;
  for (std::size_t i = 0; i < order.size(); ++i)
    (i % kPart == 0 ? test : train).push_back(order[i]);
  std::ranges::sort(train);
  std::ranges::sort(test);
  return {data::subset(all, std::move(train)), data::subset(all, std::move(test))};
}

}  // namespace

DataPaths find_paths(const RecipeOptions& options) {
  if (options.data.empty()) {
    throw InputError(
        "no data: give --data, a folder with files or folders called train… and test…, or a file, "
        "or a "
        "pattern such as 'part-*'");
  }
  DataPaths paths;
  int left_out = 0;
  std::vector<data::Part> found;
  if (storage::is_folder(options.data)) {
    for (const auto& entry : storage::list(options.data)) {
      const std::string& name = entry.name;
      const fs::path path = options.data / name;
      const auto has = [&](const char* part) {
        return name.find(part) != std::string::npos;
      };
      if (!data::is_part_file(path)) continue;
      found.push_back({path, entry.status});
      if (has("train"))
        paths.train.push_back(path);
      else if (has("test") || has("val"))
        paths.test.push_back(path);
      else
        ++left_out;
    }
    std::ranges::sort(paths.train);
    std::ranges::sort(paths.test);
    // Taken one by one below, and yet those of a folder.
    data::check_numbered({{options.data, storage::kFolder}}, found, options.success_file);
    // All in one, with whatever name.
    if (paths.train.empty()) {
      paths = {{options.data}, {}, {}};
      left_out = 0;
    }
  } else {
    paths.train = {options.data};
  }
  if (!options.test_data.empty()) paths.test = {options.test_data};
  paths.description = options.data.string();
  if (left_out > 0)
    paths.description += fmt::format(" without {} file{} called neither train… nor test…", left_out,
                                     left_out == 1 ? "" : "s");
  return paths;
}

data::DatasetOptions reading_of(const RecipeOptions& options, data::DamageLog& damage) {
  return {.format = options.format,
          .classes = {},
          .text_columns = options.text_columns,
          .label_column = options.label_column,
          .success_file = options.success_file,
          .damage = &damage};
}

Splits open_splits(const RecipeOptions& options, data::DamageLog& damage,
                   const std::vector<std::string>& classes) {
  const DataPaths paths = find_paths(options);
  data::DatasetOptions reading = reading_of(options, damage);
  reading.classes = classes;
  Splits splits;
  splits.train = data::open_dataset(paths.train, reading);
  if (splits.train->size() == 0)
    throw InputError(fmt::format("{}: holds no samples", options.data.string()));
  splits.description = paths.description;
  if (paths.test.empty()) {
    std::tie(splits.train, splits.test) = hold_out(splits.train, options.seed);
    if (splits.train->size() == 0)
      throw InputError(fmt::format("{}: has too few samples to hold some out for testing",
                                   options.data.string()));
    splits.description += ", a tenth held out for testing";
  } else {
    reading.classes = splits.train->classes();
    splits.test = data::open_dataset(paths.test, reading);
  }
  return splits;
}

}  // namespace sullae::train
