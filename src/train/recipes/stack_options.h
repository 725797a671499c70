// The flags of recipes that are transformers.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "sullae/data/pieces.h"
#include "train/models/transformer_block.h"
#include "train/task.h"

namespace sullae::train {

/// With these defaults.
inline std::vector<ExtraOption> stack_options(const TransformerStack& defaults) {
  return {{"embedding-size", static_cast<double>(defaults.size),
           "Numbers in the vector of a piece, and between layers"},
          {"heads", static_cast<double>(defaults.heads), "Heads of each layer's attention"},
          {"layers", static_cast<double>(defaults.layers), "Layers"},
          {"dropout", defaults.dropout, "Part of each layer's results dropped in training",
           ExtraOption::Takes::part}};
}

inline TransformerStack stack_of(const ModelDescription& description) {
  return {.size = description.integer("embedding-size"),
          .heads = description.integer("heads"),
          .layers = description.integer("layers"),
          .dropout = description.number("dropout")};
}

/// As many as the flag --pieces says.
inline data::Pieces learn_pieces(const std::vector<std::string_view>& texts,
                                 const ModelDescription& description) {
  const auto count = std::max<std::int64_t>(description.integer("pieces"), 0);
  return data::Pieces::learn(texts, static_cast<std::size_t>(count));
}

}  // namespace sullae::train
