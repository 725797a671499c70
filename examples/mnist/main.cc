// MNIST with libtorch and Sullae. The numbered lines are all that makes it distributed.
//
//   sullae run -np 2 ./train --data DIR       digits are drawn where no DIR is given
#include <sullae/data.h>
#include <sullae/torch.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <vector>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Conv2d(1, 16, 5));
    second = register_module("second", torch::nn::Conv2d(16, 32, 5));
    output = register_module("output", torch::nn::Linear(512, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x), 2));
    x = torch::relu(torch::max_pool2d(second(x), 2));
    return output(x.flatten(1));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear output{nullptr};
};
TORCH_MODULE(Net);

struct Digits {
  torch::Tensor images, labels;
};

Digits to_tensors(sullae::data::ImageSet set, torch::Device device) {
  const auto count = static_cast<std::int64_t>(set.size());
  const auto images = torch::from_blob(set.pixels.data(), {count, 1, 28, 28}, torch::kUInt8);
  const auto labels = torch::from_blob(set.labels.data(), {count}, torch::kUInt8);
  return {(images.to(torch::kFloat32) / 255 - 0.13).to(device),
          labels.to(torch::kInt64).to(device)};
}

int train(const char* data) {
  sullae::init();                              // 1 rank, size and rendezvous from the environment
  const auto device = sullae::local_device();  // 2 one GPU a process, or the CPU

  sullae::data::Mnist mnist;
  if (data != nullptr) {
    mnist = sullae::data::read_mnist(data);
  } else {
    mnist = {sullae::data::draw_digits(6000, 1), sullae::data::draw_digits(1000, 2)};
  }
  const Digits train = to_tensors(std::move(mnist.train), device);
  const Digits test = to_tensors(std::move(mnist.test), device);

  Net model;
  model->to(device);
  torch::optim::SGD sgd(model->parameters(),
                        torch::optim::SGDOptions(0.02 * sullae::size()).momentum(0.9));
  sullae::DistributedOptimizer optimizer(
      sgd, model->named_parameters());               // 3 gradients averaged during backward
  sullae::broadcast_parameters(*model, /*root=*/0);  // 4 all start equal
  auto sampler = sullae::DistributedSampler(
      static_cast<std::size_t>(train.labels.size(0)));  // 5 each its own shard

  for (int epoch = 1; epoch <= 3; ++epoch) {
    sampler.set_epoch(static_cast<std::size_t>(epoch));
    model->train();
    double loss_sum = 0;
    int steps = 0;
    while (const auto batch = sampler.next(32)) {
      const std::vector<std::int64_t> numbers(batch->begin(), batch->end());
      const auto index = torch::tensor(numbers, torch::TensorOptions(torch::kInt64).device(device));
      optimizer.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(
          model->forward(train.images.index_select(0, index)), train.labels.index_select(0, index));
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      ++steps;
    }
    model->eval();
    const torch::NoGradGuard guard;
    const double accuracy = model->forward(test.images)
                                .argmax(1)
                                .eq(test.labels)
                                .to(torch::kFloat64)
                                .mean()
                                .item<double>();
    const auto mean = sullae::average_metrics({{"loss", loss_sum / steps}});
    if (sullae::rank() == 0) {
      std::printf("epoch %d  loss %.4f  test accuracy %.2f %%\n", epoch, mean.at("loss"),
                  100 * accuracy);
      sullae::save_checkpoint("mnist.ckpt", *model, &sgd,
                              {{.numbers = {{"epoch", epoch}}}});  // 6 whole or not at all
    }
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc == 3 && std::strcmp(argv[1], "--data") == 0 ? argv[2] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
