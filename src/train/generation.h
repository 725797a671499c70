// Texts that a language model goes on with.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/data/order.h"
#include "sullae/data/pieces.h"
#include "train/description.h"
#include "train/models/key_value_cache.h"

namespace sullae::train {

/// How the next piece is chosen, and when the text ends. The names are those of Triton's generate
/// endpoint and of Hugging Face's generation.
struct GenerationOptions {
  /// Pieces; at most kMostTokens.
  std::int64_t max_tokens = 100;
  /// Scores are divided by it; 0 takes the likeliest piece.
  double temperature = 0.8;
  /// Only so many of the likeliest pieces are drawn from; 0 for all.
  std::int64_t top_k = 0;
  /// Only the likeliest pieces that have this probability together are drawn from (A. Holtzman et
  /// al., 2020).
  double top_p = 1;
  /// The same prompt, model and seed give the same text.
  std::uint64_t seed = 1;

  static constexpr std::int64_t kMostTokens = 1 << 13;
};

/// Throws InputError that names the option, as `name` writes it ("--max-tokens" or "max_tokens").
void check_generation(const GenerationOptions& options,
                      const std::function<std::string(const char*)>& name);

/// How texts become what a language model takes.
struct Language {
  /// Throws InputError where `description` is of no language model.
  explicit Language(const ModelDescription& description);
  /// Of an empty text what is in front of all.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// The last of them, as many as the model sees.
  std::vector<std::int64_t> window(const std::vector<std::int64_t>& tokens) const;

  data::Pieces pieces;
  std::size_t context;
};

/// A text on its way: asks for scores of what follows, and takes a piece. When it is longer than
/// the model sees, the older half of what was seen is dropped: a window that moved with each piece
/// would be computed anew for each, since the model knows places by their distance from its begin.
/// Used by one thread at a time.
class Continuation {
 public:
  Continuation(const Language& language, std::string_view prompt, const GenerationOptions& options);

  /// What the model has not seen: for LanguageModel::go_on.
  NewPieces unseen();
  /// What the model keeps of what it has seen. May be cleared.
  KeyValueCache& cache() { return cache_; }
  bool ended() const { return !finish_reason_.empty(); }
  /// `scores` [pieces], of what follows. Must not have ended.
  void take(const torch::Tensor& scores);

  /// What is there behind the prompt; until the end, without what may be a part of a character.
  std::string text() const;
  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size() - prompt_); }
  /// "stop" where the model ended the text, "length" after max_tokens; empty before.
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  std::int64_t choose(const torch::Tensor& scores);

  Language language_;
  GenerationOptions options_;
  data::Random random_;
  std::vector<std::int64_t> tokens_;  // of the prompt those that the model sees
  std::size_t prompt_;                // of tokens_
  std::size_t begin_ = 0;             // of what the model sees
  KeyValueCache cache_;
  std::string finish_reason_;
};

}  // namespace sullae::train
