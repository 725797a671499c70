// Images that a model was trained on, and images that operators have labelled since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sullae/data.h"
#include "train/task.h"

namespace sullae::train {

/// The images (JPEG files) of `added` as a data set has them, with their labels. Throws InputError for a label
/// that the model does not know.
std::vector<data::Example> label_images(const std::vector<AddedSample>& added,
                                        const ModelDescription& description);

struct OldImages {
  /// Numbers of the data set's.
  std::vector<std::size_t> samples;
  /// Numbers among `samples`, by class.
  std::vector<std::vector<std::size_t>> by_class;
};

/// Images of `dataset` to draw from: 50,000 at most, since to know an image's class is to read it. What is among
/// `added` is left out; damaged records go to `damage`. Throws InputError for a class that the model does not
/// know.
OldImages choose_old(const data::Dataset& dataset, const std::vector<data::Example>& added,
                     const ModelDescription& description, data::DamageLog& damage,
                     std::uint64_t seed);

/// `old`, and `added` behind it.
data::DatasetPtr append(data::DatasetPtr old, const std::vector<data::Example>& added);

}  // namespace sullae::train
