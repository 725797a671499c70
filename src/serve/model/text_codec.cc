#include "serve/model/words_codec.h"

namespace sullae::serve {
namespace {

class TextCodec final : public WordsCodec {
 public:
  explicit TextCodec(const train::ModelDescription& description)
      : encoder_(train::make_text_encoder(description)), output_(description) {}

  const std::vector<TensorSignature>& outputs() const override { return output_.signatures(); }
  std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const override {
    return output_.encode(outputs.at(0));
  }
  std::vector<std::string> labels() const override { return output_.labels(); }

 protected:
  std::vector<std::int64_t> numbers_of(const std::string& text) const override {
    return encoder_.encode(text);
  }

 private:
  data::TextEncoder encoder_;
  ClassOutput output_;
};

}  // namespace

std::unique_ptr<Codec> make_text_codec(const train::ModelDescription& description) {
  return std::make_unique<TextCodec>(description);
}

}  // namespace sullae::serve
