// What follows a text, of a language model: the likeliest piece alone. Texts that go on are in
// serve/generation.
#include <torch/torch.h>

#include <utility>

#include "base/utf8.h"
#include "serve/model/words_codec.h"

namespace sullae::serve {
namespace {

class NextPieceCodec final : public WordsCodec {
 public:
  explicit NextPieceCodec(train::Language language) : language_(std::move(language)) {}

  const std::vector<TensorSignature>& outputs() const override { return outputs_; }
  bool learns_to_write() const override { return true; }

  std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const override {
    const auto probabilities = torch::softmax(outputs.at(0).to(torch::kFloat32), 1);
    const auto [best, pieces] = probabilities.max(1);
    InferTensor next{.name = "next", .datatype = Datatype::bytes, .shape = {pieces.size(0)}};
    for (std::int64_t row = 0; row < pieces.size(0); ++row) {
      const std::vector<std::int64_t> piece = {pieces[row].item<std::int64_t>()};
      next.strings.push_back(replace_invalid_utf8(language_.pieces.decode(piece)));
    }
    return {std::move(next),
            {.name = "probability", .shape = {pieces.size(0)}, .data = bytes_of(best)}};
  }

 protected:
  std::vector<std::int64_t> numbers_of(const std::string& text) const override {
    return language_.window(language_.encode(text));
  }

 private:
  train::Language language_;
  std::vector<TensorSignature> outputs_ = {{"next", Datatype::bytes, {-1}},
                                           {"probability", Datatype::fp32, {-1}}};
};

}  // namespace

std::unique_ptr<Codec> make_next_piece_codec(const train::Language& language) {
  return std::make_unique<NextPieceCodec>(language);
}

}  // namespace sullae::serve
