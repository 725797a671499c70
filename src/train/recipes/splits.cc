#include "train/recipes/splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/counted.h"
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

// In lower case: "train", "1" and "csv" of "Train-1.csv", "cifar" and "test" of "cifarTest".
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  const auto is_in = [](char c, char first, char last) {
    return c >= first && c <= last;
  };
  char before = 0;
  for (const char c : name) {
    const bool is_capital = is_in(c, 'A', 'Z');
    const bool is_part = is_capital || is_in(c, 'a', 'z') || is_in(c, '0', '9');
    const bool begins = words.empty() || (is_capital && is_in(before, 'a', 'z')) || !is_part;
    if (begins) words.emplace_back();
    if (is_part) words.back() += to_lower({&c, 1});
    before = c;
  }
  return words;
}

// Other words that end so.
constexpr std::array<std::string_view, 5> kOthers = {"latest", "contest", "protest", "strain",
                                                     "restrain"};

bool begins_or_ends(const std::string& word, std::string_view with) {
  return word.starts_with(with) ||
         (word.ends_with(with) && std::ranges::find(kOthers, word) == kOthers.end());
}

bool is_of_training(const std::string& name) {
  return std::ranges::any_of(words_of(name),
                             [](const std::string& word) { return begins_or_ends(word, "train"); });
}

// "t10k" is of MNIST and its like.
bool is_of_testing(const std::string& name) {
  return std::ranges::any_of(words_of(name), [](const std::string& word) {
    return begins_or_ends(word, "test") || word.starts_with("valid") || word.starts_with("eval") ||
           word == "t10k" ||
           (word.starts_with("val") && word.find_first_not_of("0123456789", 3) == word.npos);
  });
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
  bool are_test_files = true;
  std::vector<data::Part> found;
  if (storage::is_folder(options.data)) {
    for (const auto& entry : storage::list(options.data)) {
      const std::string& name = entry.name;
      const fs::path path = options.data / name;
      if (!data::is_part_file(path)) continue;
      found.push_back({path, entry.status});
      if (is_of_training(name))
        paths.train.push_back(path);
      else if (is_of_testing(name)) {
        paths.test.push_back(path);
        are_test_files = are_test_files && !entry.status.is_folder;
      } else
        others.push_back(path);
    }
    // Beside a test set the others are what there is to train on; a folder may be a class that is
    // called so.
    if (paths.train.empty() && !paths.test.empty() && are_test_files)
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
    paths.description +=
        fmt::format(" without {} called neither train… nor test…", counted(others.size(), "file"));
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
      throw InputError(fmt::format("{}: has {}: too few to hold some out for testing",
                                   options.data.string(), counted(splits.test->size(), "sample")));
    splits.description += ", a tenth held out for testing";
  } else {
    reading.classes = splits.train->classes();
    splits.test = data::open_dataset(paths.test, reading);
  }
  return splits;
}

}  // namespace sullae::train
