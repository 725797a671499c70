#include "serve/model/words_codec.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/request_error.h"

namespace sullae::serve {

Rows rows_of_words(std::vector<std::vector<std::int64_t>> words) {
  Rows rows{.count = static_cast<std::int64_t>(words.size()), .words = std::move(words)};
  std::size_t longest = 1;
  for (const auto& one : rows.words) longest = std::max(longest, one.size());
  // Texts of a batch are padded to the longest, so at most a half of it is padding.
  rows.key = static_cast<std::uint64_t>(std::bit_width(longest - 1));
  return rows;
}

Rows row_of_growing(train::NewPieces text) {
  constexpr std::uint64_t kGrows = std::uint64_t{1} << 32;
  Rows rows = rows_of_words({std::move(text.pieces)});
  rows.cache = text.cache;
  rows.key |= kGrows;
  return rows;
}

Rows WordsCodec::decode(const InferRequest& request, std::chrono::steady_clock::time_point) const {
  const InferTensor& input = only_input(request, inputs_[0].name);
  if (input.datatype != Datatype::bytes)
    refuse(fmt::format("input '{}': expected BYTES, got {}", input.name, name_of(input.datatype)));
  std::vector<std::vector<std::int64_t>> words;
  for (const auto& text : input.strings) {
    if (text.size() > train::kMostTextBytes)
      refuse(fmt::format("input '{}', text {}: has {} bytes, expected at most {}", input.name,
                         words.size(), text.size(), train::kMostTextBytes));
    words.push_back(numbers_of(text));
  }
  return rows_of_words(std::move(words));
}

Rows WordsCodec::decode(const data::Example& sample) const {
  const std::string* const text = sample.bytes(data::feature::kText);
  if (text == nullptr)
    throw data::DamagedRecord(fmt::format("has no feature '{}'", data::feature::kText));
  return rows_of_words({numbers_of(*text)});
}

std::vector<torch::jit::IValue> WordsCodec::collate(const std::vector<const Rows*>& rows) const {
  std::int64_t count = 0;
  std::size_t longest = 1;
  for (const Rows* of_request : rows) {
    count += of_request->count;
    for (const auto& words : of_request->words) longest = std::max(longest, words.size());
  }
  auto padded = torch::full({count, static_cast<std::int64_t>(longest)}, data::Vocabulary::kPadding,
                            torch::kInt64);
  auto lengths = torch::empty({count}, torch::kInt64);
  auto* row = padded.data_ptr<std::int64_t>();
  auto* length = lengths.data_ptr<std::int64_t>();
  for (const Rows* of_request : rows) {
    for (const auto& words : of_request->words) {
      std::ranges::copy(words, row);
      row += longest;
      *length++ = static_cast<std::int64_t>(words.size());
    }
  }
  return {padded, lengths};
}

InferRequest WordsCodec::example(std::int64_t rows) const {
  return {.inputs = {{.name = inputs_[0].name,
                      .datatype = Datatype::bytes,
                      .shape = {rows},
                      .strings = std::vector<std::string>(static_cast<std::size_t>(rows),
                                                          "a b c d e f g h i j k l")}}};
}

}  // namespace sullae::serve
