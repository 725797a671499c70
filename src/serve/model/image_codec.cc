#include <fmt/format.h>
#include <torch/torch.h>

#include "base/copy.h"
#include "base/request_error.h"
#include "serve/model/codec.h"
#include "sullae/data/image.h"

namespace sullae::serve {
namespace {

constexpr const char* kInput = "image";

data::ImageTransform make_transform(const train::ModelDescription& description) {
  data::ImageTransformOptions options{
      .size = static_cast<std::size_t>(description.integer("image-size")),
      .centre_share = description.number("centre-share")};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    // One number stands for all channels.
    const auto of = [&](const std::vector<double>& values) {
      return static_cast<float>(values.at(std::min(channel, values.size() - 1)));
    };
    options.mean[channel] = of(description.mean);
    options.deviation[channel] = of(description.deviation);
  }
  return data::ImageTransform(options);
}

class ImageCodec final : public Codec {
 public:
  explicit ImageCodec(const train::ModelDescription& description)
      : transform_(make_transform(description)),
        channels_(description.integer("channels")),
        side_(description.integer("image-size")),
        output_(description) {}

  const std::vector<TensorSignature>& inputs() const override { return inputs_; }
  const std::vector<TensorSignature>& outputs() const override { return output_.signatures(); }

  bool decodes_slowly() const override { return true; }
  using Codec::decode;
  Rows decode(const InferRequest& request,
              std::chrono::steady_clock::time_point until) const override {
    const InferTensor& input = only_input(request, kInput);
    if (input.datatype == Datatype::fp32) return take_pixels(input);
    if (input.datatype != Datatype::bytes)
      refuse(fmt::format("input '{}': expected BYTES (JPEG files) or FP32, got {}", kInput,
                         name_of(input.datatype)));
    const auto count = static_cast<std::int64_t>(input.strings.size());
    auto images = torch::empty({count, 3, side_, side_});
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::chrono::steady_clock::now() > until)
        throw RequestError(
            Refusal::timeout,
            fmt::format(
                "input '{}': {} of {} images could be decoded in the time that a request has "
                "(timeout_milliseconds)",
                kInput, i, count));
      try {
        transform_.apply(input.strings[static_cast<std::size_t>(i)], data::Random(0, 0, 0),
                         images[i].data_ptr<float>());
      } catch (const data::DamagedRecord& error) {
        refuse(fmt::format("input '{}', image {}: {}", kInput, i, error.what()));
      }
    }
    return rows_of(images);
  }
  Rows decode(const data::Example& sample) const override {
    auto image = torch::empty({1, 3, side_, side_});
    transform_.apply(sample, data::Random(0, 0, 0), image.data_ptr<float>());
    return rows_of(image);
  }

  std::vector<torch::jit::IValue> collate(const std::vector<const Rows*>& rows) const override {
    std::vector<torch::Tensor> parts;
    for (const Rows* of_request : rows) parts.push_back(of_request->tensors[0]);
    return {torch::cat(parts)};
  }

  std::vector<InferTensor> encode(const std::vector<torch::Tensor>& outputs) const override {
    return output_.encode(outputs.at(0));
  }

  std::vector<std::string> labels() const override { return output_.labels(); }

  InferRequest example(std::int64_t rows) const override {
    const auto bytes = static_cast<std::size_t>(rows * channels_ * side_ * side_) * sizeof(float);
    return {.inputs = {{.name = kInput,
                        .shape = {rows, channels_, side_, side_},
                        .data = std::string(bytes, '\0')}}};
  }

 private:
  // The three channels of a grey image are equal.
  Rows rows_of(const torch::Tensor& images) const {
    return {.count = images.size(0),
            .tensors = {channels_ == 1 ? images.mean(1, /*keepdim=*/true) : images}};
  }

  Rows take_pixels(const InferTensor& input) const {
    const auto& shape = input.shape;
    if (shape.size() != 4 || shape[1] != channels_ || shape[2] != side_ || shape[3] != side_) {
      refuse(fmt::format("input '{}': shape [{}], expected [batch, {}, {}, {}]", kInput,
                         fmt::join(shape, ", "), channels_, side_, side_));
    }
    auto pixels = torch::empty(shape);
    copy_bytes(pixels.data_ptr<float>(), input.data.data(), input.data.size());
    if (!torch::isfinite(pixels).all().item<bool>())
      refuse(fmt::format("input '{}': a pixel is no finite number", kInput));
    return {.count = shape[0], .tensors = {pixels}};
  }

  data::ImageTransform transform_;
  std::int64_t channels_;
  std::int64_t side_;
  ClassOutput output_;
  std::vector<TensorSignature> inputs_ = {{kInput, Datatype::bytes, {-1}}};
};

}  // namespace

std::unique_ptr<Codec> make_image_codec(const train::ModelDescription& description) {
  return std::make_unique<ImageCodec>(description);
}

}  // namespace sullae::serve
