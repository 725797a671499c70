#include "train/models/resnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "sullae/error.h"
#include "sullae/torch/parallel.h"
#include "train/models/script.h"

namespace sullae::train {
namespace {

struct Shape {
  int depth;
  bool bottleneck;
  std::array<int, 4> blocks;
};
constexpr Shape kShapes[] = {{18, false, {2, 2, 2, 2}},
                             {34, false, {3, 4, 6, 3}},
                             {50, true, {3, 4, 6, 3}},
                             {101, true, {3, 4, 23, 3}}};
constexpr std::int64_t kExpansion = 4;  // of a bottleneck's width in its output

const Shape& shape_of(int depth) {
  const auto found =
      std::ranges::find_if(kShapes, [&](const Shape& shape) { return shape.depth == depth; });
  if (found == std::end(kShapes))
    throw InputError(fmt::format("ResNet-{}: expected 18, 34, 50 or 101 layers", depth));
  return *found;
}

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

torch::Tensor normalise(torch::nn::BatchNorm2d& norm, const torch::Tensor& x,
                        const std::function<World()>& world) {
  return world ? sync_batch_norm(x, *norm, world()) : norm(x);
}

struct BlockOptions {
  std::int64_t channels = 0;
  std::int64_t width = 0;
  std::int64_t stride = 1;
  bool bottleneck = false;
  std::function<World()> sync = {};
};

// Two 3×3 convolutions, or 1×1, 3×3 and 1×1, and what they are added to.
struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  explicit BlockImpl(const BlockOptions& o) : options(o) { BlockImpl::reset(); }

  void reset() override {
    const auto& o = options;
    const std::int64_t out = o.bottleneck ? o.width * kExpansion : o.width;
    convolutions.clear();  // of what this is a clone of
    norms.clear();
    if (o.bottleneck) {
      add(convolution(o.channels, o.width, 1, 1), o.width);
      add(convolution(o.width, o.width, 3, o.stride), o.width);
      add(convolution(o.width, out, 1, 1), out);
    } else {
      add(convolution(o.channels, o.width, 3, o.stride), o.width);
      add(convolution(o.width, o.width, 3, 1), o.width);
    }
    if (o.stride != 1 || o.channels != out) {
      downsample = register_module("downsample",
                                   torch::nn::Sequential(convolution(o.channels, out, 1, o.stride),
                                                         torch::nn::BatchNorm2d(out)));
    }
  }

  void add(torch::nn::Conv2d layer, std::int64_t out) {
    const std::size_t number = convolutions.size() + 1;
    convolutions.push_back(register_module(fmt::format("conv{}", number), std::move(layer)));
    norms.push_back(register_module(fmt::format("bn{}", number), torch::nn::BatchNorm2d(out)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      if (i > 0) y = torch::relu(y);
      y = normalise(norms[i], convolutions[i](y), options.sync);
    }
    torch::Tensor shortcut = x;
    if (!downsample.is_empty()) {
      torch::nn::BatchNorm2d norm(
          std::dynamic_pointer_cast<torch::nn::BatchNorm2dImpl>(downsample->ptr(1)));
      const auto layer = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(downsample->ptr(0));
      shortcut = normalise(norm, layer->forward(x), options.sync);
    }
    return torch::relu(y + shortcut);
  }

  BlockOptions options;
  std::vector<torch::nn::Conv2d> convolutions;
  std::vector<torch::nn::BatchNorm2d> norms;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(Block);

}  // namespace

ResNetImpl::ResNetImpl(const ResNetOptions& options) : options_(options) { ResNetImpl::reset(); }

void ResNetImpl::reset() {
  const Shape& shape = shape_of(options_.depth);
  channels_ = 64;
  conv1_ = register_module("conv1", options_.small_images ? convolution(3, channels_, 3, 1)
                                                          : convolution(3, channels_, 7, 2));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(channels_));
  for (int i = 0; i < 4; ++i)
    make_stage(i, std::int64_t{64} << i, shape.blocks[static_cast<std::size_t>(i)], i == 0 ? 1 : 2);
  fc_ = register_module("fc", torch::nn::Linear(channels_, options_.classes));
  initialise();
}

void ResNetImpl::make_stage(int index, std::int64_t width, int blocks, std::int64_t stride) {
  const bool bottleneck = shape_of(options_.depth).bottleneck;
  torch::nn::Sequential stage;
  for (int i = 0; i < blocks; ++i) {
    stage->push_back(Block(BlockOptions{.channels = channels_,
                                        .width = width,
                                        .stride = i == 0 ? stride : 1,
                                        .bottleneck = bottleneck,
                                        .sync = options_.sync_batch_norm}));
    channels_ = bottleneck ? width * kExpansion : width;
  }
  stages_[static_cast<std::size_t>(index)] =
      register_module(fmt::format("layer{}", index + 1), stage);
}

void ResNetImpl::initialise() {
  const torch::NoGradGuard guard;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* layer = module->as<torch::nn::Conv2d>()) {
      torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
    } else if (auto* block = module->as<BlockImpl>(); block && options_.zero_init_residual) {
      block->norms.back()->weight.zero_();
    }
  }
}

torch::Tensor ResNetImpl::forward(torch::Tensor x) {
  x = torch::relu(normalise(bn1_, conv1_(x), options_.sync_batch_norm));
  if (!options_.small_images) x = torch::max_pool2d(x, 3, 2, 1);
  for (auto& stage : stages_) x = stage->forward(x);
  return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

torch::jit::Module ResNetImpl::script() const {
  std::string source = "def forward(self, x):\n";
  const auto add = [&](const std::string& line) {
    source += "    " + line + "\n";
  };
  // A convolution and its norm.
  const auto normed = [](const std::string& input, const std::string& layer,
                         const std::string& norm, std::int64_t stride, std::int64_t padding) {
    return fmt::format(
        "torch.batch_norm(torch.conv2d({0}, self.{1}_weight, None, [{3}, {3}], [{4}, {4}]), "
        "self.{2}_weight, "
        "self.{2}_bias, self.{2}_running_mean, self.{2}_running_var, False, 0.1, {5}, True)",
        input, layer, norm, stride, padding, torch::nn::BatchNormOptions(1).eps());
  };
  const auto stride_of = [](const torch::nn::Conv2dImpl& layer) {
    return (*layer.options.stride())[0];
  };
  add(fmt::format("x = torch.relu({})",
                  normed("x", "conv1", "bn1", stride_of(*conv1_), options_.small_images ? 1 : 3)));
  if (!options_.small_images) add("x = torch.max_pool2d(x, [3, 3], [2, 2], [1, 1])");
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (std::size_t index = 0; index < stages_[stage]->size(); ++index) {
      const auto& block = *stages_[stage]->ptr<BlockImpl>(index);
      const auto prefix = fmt::format("layer{}_{}_", stage + 1, index);
      add("y = x");
      for (std::size_t i = 0; i < block.convolutions.size(); ++i) {
        const auto& layer = *block.convolutions[i];
        const auto kernel = (*layer.options.kernel_size())[0];
        if (i > 0) add("y = torch.relu(y)");
        add("y = " + normed("y", fmt::format("{}conv{}", prefix, i + 1),
                            fmt::format("{}bn{}", prefix, i + 1), stride_of(layer), kernel / 2));
      }
      if (!block.downsample.is_empty())
        add("x = " +
            normed("x", prefix + "downsample_0", prefix + "downsample_1", block.options.stride, 0));
      add("x = torch.relu(y + x)");
    }
  }
  add("x = torch.flatten(torch.adaptive_avg_pool2d(x, [1, 1]), 1)");
  add("return torch.linear(x, self.fc_weight, self.fc_bias)");
  return make_script(*this, source);
}

}  // namespace sullae::train
