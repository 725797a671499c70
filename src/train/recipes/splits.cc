#include "train/recipes/splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
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

// Whether a word of the name is `word`, or, with `more`, begins so: "latest" is no test.
bool has_word(const std::string& name, std::string_view word, bool more) {
  const auto is_letter = [&](std::size_t i) {
    return i < name.size() && name[i] >= 'a' && name[i] <= 'z';
  };
  for (auto at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const bool begins = at == 0 || !is_letter(at - 1);
    if (begins && (more || !is_letter(at + word.size()))) return true;
  }
  return false;
}

bool is_of_training(const std::string& name) { return has_word(name, "train", true); }

// "t10k" is of MNIST and its like.
bool is_of_testing(const std::string& name) {
  return has_word(name, "test", true) || has_word(name, "valid", true) ||
         has_word(name, "val", false) || has_word(name, "t10k", false);
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
  std::vector<fs::path> others;
  bool are_files = true;
  std::vector<data::Part> found;
  if (storage::is_folder(options.data)) {
    for (const auto& entry : storage::list(options.data)) {
      const std::string name = to_lower(entry.name);
      const fs::path path = options.data / entry.name;
      if (!data::is_part_file(path)) continue;
      found.push_back({path, entry.status});
      are_files = are_files && !entry.status.is_folder;
      if (is_of_training(name))
        paths.train.push_back(path);
      else if (is_of_testing(name))
        paths.test.push_back(path);
      else
        others.push_back(path);
    }
    // Beside a test set the others are what there is to train on; folders may be classes, of which one is called so.
    if (paths.train.empty() && !paths.test.empty() && are_files)
      paths.train = std::exchange(others, {});
    std::ranges::sort(paths.train);
    std::ranges::sort(paths.test);
    // Taken one by one below, and yet those of a folder.
    data::check_numbered({{options.data, storage::kFolder}}, found, options.success_file);
    // All in one, with whatever name.
    if (paths.train.empty()) {
      paths = {{options.data}, {}, {}};
      others.clear();
    }
  } else {
    paths.train = {options.data};
  }
  if (!options.test_data.empty()) paths.test = {options.test_data};
  paths.description = options.data.string();
  if (!others.empty())
    paths.description += fmt::format(" without {} file{} called neither train… nor test…",
                                     others.size(), others.size() == 1 ? "" : "s");
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
