// The seam between requests and a network: what clients send, as the network takes it, and back.
#pragma once

#include <torch/script.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "serve/model/config.h"
#include "serve/tensors.h"
#include "sullae/data/dataset.h"
#include "train/generation.h"

namespace sullae::serve {

/// The input of one request, ready to be put together with others.
struct Rows {
  std::int64_t count = 0;
  /// [count, …] each.
  std::vector<torch::Tensor> tensors = {};
  /// Of texts, a list a row.
  std::vector<std::vector<std::int64_t>> words = {};
  /// Of a text that goes on: what holds the pieces before those in `words`.
  train::KeyValueCache* cache = nullptr;
  /// Only rows of equal keys can be, or should be, computed together.
  std::uint64_t key = 0;
};

/// Any thread may call one object.
class Codec {
 public:
  virtual ~Codec() = default;
  /// Whether the first dimension of inputs counts rows.
  virtual bool is_batched() const { return true; }
  virtual const std::vector<TensorSignature>& inputs() const = 0;
  virtual const std::vector<TensorSignature>& outputs() const = 0;
  /// Whether decode() may take long for what are few bytes.
  virtual bool decodes_slowly() const { return false; }
  /// Throws RequestError: invalid, and timeout where it is not done by `until`.
  virtual Rows decode(const InferRequest& request,
                      std::chrono::steady_clock::time_point until) const = 0;
  Rows decode(const InferRequest& request) const {
    return decode(request, std::chrono::steady_clock::time_point::max());
  }
  /// One sample of a data set: a row. Throws data::DamagedRecord.
  virtual Rows decode(const data::Example& sample) const = 0;
  /// The network's input for all of `rows`, one after the other.
  virtual std::vector<torch::jit::IValue> collate(const std::vector<const Rows*>& rows) const = 0;
  /// The answer, of the network's outputs for the rows of one request, [count, …] each.
  virtual std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const = 0;
  /// The labels of its classes; none where it does not classify.
  virtual std::vector<std::string> labels() const { return {}; }
  /// Whether what it learns from are texts without labels.
  virtual bool learns_to_write() const { return false; }
  /// A request to warm up with, of `rows` rows; empty where nothing is known of what the model
  /// takes.
  virtual InferRequest example(std::int64_t rows) const = 0;
};

/// Texts in (BYTES "text"), classes out.
std::unique_ptr<Codec> make_text_codec(const train::ModelDescription& description);
/// Texts in, the likeliest piece that follows out: "next" (BYTES) and "probability" (FP32).
std::unique_ptr<Codec> make_next_piece_codec(const train::Language& language);
/// Encoded images (BYTES "image"), or the network's own input under that name (FP32), in; classes
/// out.
std::unique_ptr<Codec> make_image_codec(const train::ModelDescription& description);
/// The network's own input and output. `batched`: the first dimension counts rows.
std::unique_ptr<Codec> make_tensor_codec(std::vector<TensorSignature> inputs,
                                         std::vector<TensorSignature> outputs, bool batched);

/// The input called `name`, and the only one, a text or an image a row where it is BYTES. Throws
/// RequestError (invalid).
const InferTensor& only_input(const InferRequest& request, const std::string& name);

/// Of a tensor in the host's memory, in order.
std::string bytes_of(const torch::Tensor& tensor);

/// Scores as classes: "label" (BYTES), "probability" (FP32) and "probabilities" (FP32, of all
/// classes).
class ClassOutput {
 public:
  explicit ClassOutput(const train::ModelDescription& description);
  const std::vector<TensorSignature>& signatures() const { return signatures_; }
  std::vector<InferTensor> encode(const torch::Tensor& scores) const;
  /// All that encode() could give.
  std::vector<std::string> labels() const;

 private:
  std::vector<std::string> names_;
  std::vector<TensorSignature> signatures_;
};

}  // namespace sullae::serve
