// The options that every recipe takes.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "sullae/train/options.h"

namespace sullae::train {

/// How a recipe's model is trained, and on what.
struct RecipeOptions : TrainOptions {
  /// The data set; empty looks in the recipe's usual place.
  std::filesystem::path data;
  /// A topic of Kafka whose messages become `data` (train/source.h); empty for none.
  std::string source;
  /// The consumer group that has done what was trained on, and trains on what came since; empty for
  /// all that there is.
  std::string group;
  /// Of `data`: "auto" or a name of data::dataset_formats().
  std::string format = "auto";
  /// What the model is tested on; empty looks beside `data`, and else takes a tenth of it.
  std::filesystem::path test_data;
  std::string text_columns;
  std::string label_column;
  std::string success_file = "auto";
  /// Threads of each rank that decode, and batches that they are ahead.
  int data_workers = 2;
  int prefetch = 4;
  /// Megabytes of records that are kept in memory.
  int cache_megabytes = 1024;
  bool skip_damaged = false;

  double label_smoothing = 0;

  /// The model whose weights, words and classes training begins with (find_model()); empty draws
  /// weights and learns words from the data.
  std::filesystem::path init_from;

  /// A model repository that gets the trained model as its next version; empty writes none.
  std::filesystem::path export_dir;
  /// The model's name there; empty takes the recipe's.
  std::string export_name;

  /// Numbers that only this recipe knows, by flag name.
  std::map<std::string, double> extra;
  /// Those of them that were said, and are the recipe's defaults by chance at most.
  std::set<std::string> given;
};

/// Makes the folder of `file`, and throws InputError, naming the flag, where nothing can be written
/// there: better now than after hours of training. Of nothing where `file` is empty.
void require_writable(const std::filesystem::path& file, const char* flag);
void require_writable_folder(const std::filesystem::path& folder, const char* flag);

/// `directory` where it exists, else empty: for the usual places of data sets.
std::filesystem::path where_present(const std::filesystem::path& directory);

/// Throws InputError for options that differ from `defaults` and change nothing beside the others,
/// such as the end of a rate that is constant. Whoever gives them means something.
void check_all_used(const TrainOptions& options, const TrainOptions& defaults);

/// With --scale-with-ranks, batch size and learning rate for so many ranks; else `options` as they
/// are.
TrainOptions scaled(const TrainOptions& options, int ranks);
/// Throws InputError for values that cannot be, naming the flag.
void check_options(const TrainOptions& options, int world_size);
void check_options(const RecipeOptions& options, int world_size);
/// Throws InputError for what needs ranks that stay: an elastic job has none.
void check_elastic(const TrainOptions& options);

}  // namespace sullae::train
