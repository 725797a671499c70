// Usage: bench_gpu_step PRECISION BATCH STEPS: samples/s of the trainer's step of ResNet-50 on images of 224 × 224 that lie
// on the GPU already, with channels last and momentum. PRECISION is float32, float16 or bfloat16. Prints "samples_per_second X".
// Without a GPU it takes the processor, and small images.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "sullae/torch.h"
#include "train/models/resnet.h"
#include "train/stepper.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_gpu_step PRECISION BATCH STEPS\n");
    return 2;
  }
  using namespace sullae;
  using namespace sullae::train;
  const World world = init();
  const torch::Device device = local_device(world);
  const std::int64_t batch_size = std::stoll(argv[2]);
  TrainOptions options;
  options.precision = argv[1];
  options.optimizer = "sgd";
  options.lr = 0.01;
  options.momentum = 0.9;
  options.weight_decay = 1e-4;
  options.channels_last = true;
  options.batch_size = batch_size;
  torch::manual_seed(1);
  ResNet model(ResNetOptions{.depth = 50});
  model->to(device);
  model->train();
  const Classification objective = classification();
  Stepper stepper(*model, objective, options, sullae::local_device(world));
  stepper.enter(world);
  const std::int64_t pixels = device.is_cuda() ? 224 : 32;
  Batch batch{
      .inputs = {torch::randn({batch_size, 3, pixels, pixels}, device)
                     .to(stepper.update().input_type())
                     .contiguous(torch::MemoryFormat::ChannelsLast)},
      .labels = torch::randint(1000, {batch_size}, torch::dtype(torch::kInt64).device(device))};
  const int steps = std::stoi(argv[3]);
  const int warm_up = steps / 4 + 1;
  std::chrono::steady_clock::time_point start;
  for (int step = 0; step < warm_up + steps; ++step) {
    if (step == warm_up) start = std::chrono::steady_clock::now();
    stepper.step({batch}, options.lr);  // returns the loss, and so has waited for the GPU
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("samples_per_second %.1f\n", static_cast<double>(batch_size) * steps / time.count());
}
