#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <bit>

#include "base/request_error.h"
#include "serve/model/codec.h"

namespace sullae::serve {
namespace {

constexpr const char* kInput = "text";

class TextCodec final : public Codec {
 public:
  explicit TextCodec(const train::ModelDescription& description)
      : encoder_(train::make_text_encoder(description)), output_(description) {}

  const std::vector<TensorSignature>& inputs() const override { return inputs_; }
  const std::vector<TensorSignature>& outputs() const override { return output_.signatures(); }

  using Codec::decode;
  Rows decode(const InferRequest& request, std::chrono::steady_clock::time_point) const override {
    const InferTensor& input = only_input(request, kInput);
    if (input.datatype != Datatype::bytes)
      throw RequestError(Refusal::invalid, fmt::format("input '{}': expected BYTES, got {}", kInput,
                                                       name_of(input.datatype)));
    Rows rows{.count = static_cast<std::int64_t>(input.strings.size())};
    std::size_t longest = 1;
    for (const auto& text : input.strings) {
      if (text.size() > kMostTextBytes)
        throw RequestError(Refusal::invalid,
                           fmt::format("input '{}', text {}: has {} bytes, expected at most {}",
                                       kInput, rows.words.size(), text.size(), kMostTextBytes));
      rows.words.push_back(encoder_.encode(text));
      longest = std::max(longest, rows.words.back().size());
    }
    // Texts of a batch are padded to the longest, so at most a half of it is padding.
    rows.key = static_cast<std::uint64_t>(std::bit_width(longest - 1));
    return rows;
  }

  std::vector<torch::jit::IValue> collate(const std::vector<const Rows*>& rows) const override {
    std::int64_t count = 0;
    std::size_t longest = 1;
    for (const Rows* of_request : rows) {
      count += of_request->count;
      for (const auto& words : of_request->words) longest = std::max(longest, words.size());
    }
    auto padded = torch::full({count, static_cast<std::int64_t>(longest)},
                              data::Vocabulary::kPadding, torch::kInt64);
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

  std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const override {
    return output_.encode(outputs.at(0));
  }

  std::vector<std::string> labels() const override { return output_.labels(); }

  InferRequest example(std::int64_t rows) const override {
    return {.inputs = {{.name = kInput,
                        .datatype = Datatype::bytes,
                        .shape = {rows},
                        .strings = std::vector<std::string>(static_cast<std::size_t>(rows),
                                                            "a b c d e f g h i j k l")}}};
  }

 private:
  data::TextEncoder encoder_;
  ClassOutput output_;
  std::vector<TensorSignature> inputs_ = {{kInput, Datatype::bytes, {-1}}};
};

}  // namespace

std::unique_ptr<Codec> make_text_codec(const train::ModelDescription& description) {
  return std::make_unique<TextCodec>(description);
}

}  // namespace sullae::serve
