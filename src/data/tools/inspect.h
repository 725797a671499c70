// What a data set holds, and whether all of it can be read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "data/tools/work.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// What the samples that were read have in common, and how they differ.
struct Inspection {
  std::size_t samples = 0;
  /// By the name of a feature: "bytes", "float" or "int64", and in how many samples it is.
  std::map<std::string, std::map<std::string, std::size_t>> features;
  std::map<std::int64_t, std::size_t> labels;
  std::uint64_t bytes = 0;  ///< of texts and images
  std::size_t images = 0;
  std::array<std::size_t, 2> smallest_image = {SIZE_MAX, SIZE_MAX};  ///< rows, columns
  std::array<std::size_t, 2> largest_image = {0, 0};
};

struct InspectOptions {
  std::size_t threads = 1;
  /// Decodes whole images, instead of reading their headers.
  bool decode = false;
  /// Of `ranks` processes that divide the samples, this one.
  int rank = 0;
  int ranks = 1;
};

/// Reads every sample. Damaged ones go to `damage`.
Inspection inspect(const Dataset& dataset, const InspectOptions& options, DamageLog& damage,
                   const ShowProgress& show);

}  // namespace sullae::data
