// What must be known to use a trained model without the data that it was trained on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sullae/data/text.h"

namespace sullae {
struct CheckpointMetadata;
}

namespace sullae::train {

/// Longer texts are neither answered nor learnt from one by one.
inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;

enum class InputKind { image, text };

/// Goes into every checkpoint, so that one file is enough to serve a model or to train it further.
struct ModelDescription {
  /// A name of recipes().
  std::string recipe;
  InputKind input = InputKind::image;
  /// What the network and its input depend on: "classes", "hidden-size", "image-size", …
  std::map<std::string, double> numbers;
  /// The classes' names by label; empty where they have none.
  std::vector<std::string> classes;
  /// Of texts: the words by number, from 2 on; or, where there is a number "pieces", those of
  /// data::Pieces::of_list().
  std::vector<std::string> words;
  /// Of images: what pixels in [0, 1] are normalised with, a number a channel.
  std::vector<double> mean;
  std::vector<double> deviation;

  /// Throws InputError where there is no such number.
  double number(const std::string& name) const;
  /// The same where it is none that is whole.
  std::int64_t integer(const std::string& name) const;
  /// The class of this name, or, where classes have no names, of this number; empty for none.
  std::optional<std::int64_t> class_number(const std::string& name) const;
  /// Whether its samples have labels; those of one that learns to write are texts alone.
  bool has_classes() const { return numbers.contains("classes"); }
};

/// What class `number` is called: its name, or the number where `names` has none.
std::string class_name(const std::vector<std::string>& names, std::size_t number);

/// Puts `description` where description_of() finds it.
void add_description(CheckpointMetadata& metadata, const ModelDescription& description);
/// Throws InputError where a checkpoint has none. `file` is for the message.
ModelDescription description_of(const CheckpointMetadata& metadata, const std::string& file);

/// Weights may fit a model in which they mean something else: throws InputError, which begins with
/// `option`, where a checkpoint is of other words or classes than `own`, or of a network that
/// computes otherwise.
void check_same_model(const CheckpointMetadata& found, const CheckpointMetadata& own,
                      const std::string& option);

/// How the texts of a model become numbers.
data::TextEncoder make_text_encoder(const ModelDescription& description);

}  // namespace sullae::train
