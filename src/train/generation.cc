#include "train/generation.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "base/utf8.h"
#include "sullae/error.h"

namespace sullae::train {
namespace {

using data::Pieces;

// A character has no more.
constexpr std::size_t kMostUtf8Bytes = 4;

}  // namespace

void check_generation(const GenerationOptions& options,
                      const std::function<std::string(const char*)>& name) {
  const auto check = [&](bool good, const char* option, auto value, const char* expected) {
    if (!good) throw InputError(fmt::format("{} {}: expected {}", name(option), value, expected));
  };
  check(options.max_tokens >= 1 && options.max_tokens <= GenerationOptions::kMostTokens,
        "max_tokens", options.max_tokens, "1 to 8192");
  check(options.temperature >= 0 && options.temperature <= 100, "temperature", options.temperature,
        "0 (the likeliest piece) to 100");
  check(options.top_k >= 0, "top_k", options.top_k, "0 (all pieces) or more");
  check(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "above 0, up to 1");
}

Language::Language(const ModelDescription& description)
    : pieces(Pieces::of_list(description.words)),
      context(static_cast<std::size_t>(description.integer("context"))) {
  // Or what is scored would not be what is written.
  if (static_cast<std::size_t>(description.integer("words")) != pieces.size())
    throw InputError(fmt::format("a model that scores {} pieces has a vocabulary of {}",
                                 description.integer("words"), pieces.size()));
}

std::vector<std::int64_t> Language::encode(std::string_view text) const {
  auto tokens = pieces.encode_lines(text);
  if (tokens.empty()) tokens.push_back(Pieces::kEnd);
  return tokens;
}

std::vector<std::int64_t> Language::window(const std::vector<std::int64_t>& tokens) const {
  const auto count = std::min(tokens.size(), context);
  return {tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end()};
}

Continuation::Continuation(const Language& language, std::string_view prompt,
                           const GenerationOptions& options)
    : language_(language),
      options_(options),
      random_(options.seed, 0, 0),
      tokens_(language.window(language.encode(prompt))),
      prompt_(tokens_.size()) {}

NewPieces Continuation::unseen() {
  const auto seen = static_cast<std::ptrdiff_t>(begin_) + cache_.size();
  return {{tokens_.begin() + seen, tokens_.end()}, &cache_};
}

void Continuation::take(const torch::Tensor& scores) {
  const std::int64_t piece = choose(scores.to(torch::kCPU, torch::kFloat64).contiguous());
  if (piece == Pieces::kEnd) {
    finish_reason_ = "stop";
    return;
  }
  tokens_.push_back(piece);
  if (tokens_.size() - begin_ > language_.context) {
    begin_ = tokens_.size() - std::max<std::size_t>(language_.context / 2, 1);
    cache_.clear();
  }
  if (count() == options_.max_tokens) finish_reason_ = "length";
}

std::int64_t Continuation::choose(const torch::Tensor& scores) {
  const auto* const score = scores.data_ptr<double>();
  std::vector<std::int64_t> pieces;  // those that texts are made of, and their end
  for (std::int64_t piece = Pieces::kEnd; piece < scores.size(0); ++piece) pieces.push_back(piece);
  // They could not be put in order.
  if (std::any_of(score, score + scores.size(0), [](double one) { return std::isnan(one); }))
    throw Error("the model's scores are not numbers (NaN): its training has diverged");
  // Of equal ones the first.
  const auto is_likelier = [&](std::int64_t a, std::int64_t b) {
    return score[a] != score[b] ? score[a] > score[b] : a < b;
  };
  const std::int64_t likeliest = *std::ranges::min_element(pieces, is_likelier);
  if (options_.temperature == 0) return likeliest;
  if (options_.top_k > 0 && options_.top_k < static_cast<std::int64_t>(pieces.size())) {
    std::ranges::nth_element(pieces, pieces.begin() + options_.top_k, is_likelier);
    pieces.resize(static_cast<std::size_t>(options_.top_k));
  }
  if (options_.top_k > 0 || options_.top_p < 1) std::ranges::sort(pieces, is_likelier);
  std::vector<double> weights;
  for (const std::int64_t piece : pieces)
    weights.push_back(std::exp((score[piece] - score[likeliest]) / options_.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options_.top_p < 1) {
    double sum = 0;
    std::size_t kept = 0;
    while (kept < weights.size() && sum < options_.top_p * total) sum += weights[kept++];
    weights.resize(kept);
    total = sum;
  }
  double left = random_.uniform() * total;
  std::size_t chosen = 0;
  while (chosen + 1 < weights.size() && left >= weights[chosen]) left -= weights[chosen++];
  return pieces[chosen];
}

std::string Continuation::text() const {
  const std::span all(tokens_);
  const auto prompt = language_.pieces.decode(all.first(prompt_));
  auto text = language_.pieces.decode(all).substr(prompt.size());
  if (ended()) return replace_invalid_utf8(text);
  // The bytes at the end that would become a character with more to come.
  std::size_t whole = text.size();
  for (std::size_t back = 1; back < kMostUtf8Bytes && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0U) == 0x80U) continue;
    if (byte >= 0xc0 &&
        utf8_sequence_length(std::string_view(text).substr(text.size() - back)) == 0)
      whole = text.size() - back;
    break;
  }
  text.resize(whole);
  return replace_invalid_utf8(text);
}

}  // namespace sullae::train
