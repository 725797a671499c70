// What all models of texts have in common: numbers of words, padded behind the shorter texts, and
// the texts' lengths.
#pragma once

#include <string>
#include <vector>

#include "serve/model/codec.h"

namespace sullae::serve {

/// Texts in (BYTES "text").
class WordsCodec : public Codec {
 public:
  const std::vector<TensorSignature>& inputs() const final { return inputs_; }
  using Codec::decode;
  Rows decode(const InferRequest& request, std::chrono::steady_clock::time_point) const final;
  Rows decode(const data::Example& sample) const final;
  std::vector<torch::jit::IValue> collate(const std::vector<const Rows*>& rows) const final;
  InferRequest example(std::int64_t rows) const final;

 protected:
  /// At least one number.
  virtual std::vector<std::int64_t> numbers_of(const std::string& text) const = 0;

 private:
  std::vector<TensorSignature> inputs_ = {{"text", Datatype::bytes, {-1}}};
};

/// Texts of these numbers.
Rows rows_of_words(std::vector<std::vector<std::int64_t>> words);
/// The row of a text that goes on. The cache is used until the row has been answered.
Rows row_of_growing(train::NewPieces text);

}  // namespace sullae::serve
