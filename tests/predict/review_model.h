// A model of reviews, whose answers are known.
#pragma once

#include <filesystem>
#include <string>

#include "serve/models.h"

namespace sullae::testing {

/// Says "good" of texts with more words "b" than "a".
inline void put_review_model(const std::filesystem::path& model, int version = 1) {
  put_text_model(model, version);
  std::filesystem::remove_all(model / std::to_string(version));
  put_script(
      model, version,
      "def forward(self, words, lengths):\n"
      "    return torch.stack([torch.sum(words == 2, 1), torch.sum(words == 3, 1)], 1) * 1.0\n");
}

}  // namespace sullae::testing
