// Usage: bench_gpu_step MODEL PRECISION BATCH STEPS: samples/s of the trainer's step, of what lies
// on the GPU already. MODEL is resnet50 (images of 224 × 224, channels last, momentum) or gpt
// (GPT-2 with 124 million parameters, texts of 1024 pieces, AdamW), PRECISION float32, float16 or
// bfloat16. Prints "samples_per_second X". Without a GPU it takes the processor, small images and
// short texts.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "sullae/torch.h"
#include "train/models/gpt.h"
#include "train/models/resnet.h"
#include "train/objectives/next_piece.h"
#include "train/stepper.h"

namespace {

using namespace sullae;
using namespace sullae::train;

struct Case {
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<Objective> objective;
  TrainOptions options;
  Batch batch;  // of the model's type where that is one of numbers
};

Case resnet_case(std::int64_t batch, torch::Device device) {
  Case made;
  made.options.optimizer = "sgd";
  made.options.lr = 0.01;
  made.options.momentum = 0.9;
  made.options.weight_decay = 1e-4;
  made.options.channels_last = true;
  made.model = std::make_shared<ResNetImpl>(ResNetOptions{.depth = 50});
  made.objective = std::make_unique<Classification>(classification());
  const std::int64_t pixels = device.is_cuda() ? 224 : 32;
  made.batch = {
      .inputs = {torch::randn({batch, 3, pixels, pixels}, device)
                     .contiguous(torch::MemoryFormat::ChannelsLast)},
      .labels = torch::randint(1000, {batch}, torch::dtype(torch::kInt64).device(device))};
  return made;
}

Case gpt_case(std::int64_t batch, torch::Device device) {
  Case made;
  made.options.optimizer = "adamw";
  made.options.lr = 1e-4;
  made.options.weight_decay = 0.01;
  made.options.clip_norm = 1;
  const std::int64_t pieces = 50257;
  const std::int64_t context = device.is_cuda() ? 1024 : 16;
  made.model = std::make_shared<GptImpl>(
      GptOptions{.pieces = pieces,
                 .context = context,
                 .stack = {.size = 768, .heads = 12, .layers = 12, .dropout = 0}});
  made.objective = std::make_unique<NextPiece>();
  const auto texts =
      torch::randint(pieces, {batch, context + 1}, torch::dtype(torch::kInt64).device(device));
  made.batch = {.inputs = {texts.slice(1, 0, context).contiguous()},
                .labels = texts.slice(1, 1).contiguous()};
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 5 ? argv[1] : "";
  if (name != "resnet50" && name != "gpt") {
    std::fprintf(stderr, "usage: bench_gpu_step resnet50|gpt PRECISION BATCH STEPS\n");
    return 2;
  }
  const World world = init();
  const torch::Device device = local_device(world);
  const std::int64_t batch_size = std::stoll(argv[3]);
  torch::manual_seed(1);
  Case made = name == "gpt" ? gpt_case(batch_size, device) : resnet_case(batch_size, device);
  made.options.precision = argv[2];
  made.options.batch_size = static_cast<int>(batch_size);
  made.model->to(device);
  made.model->train();
  Stepper stepper(*made.model, *made.objective, made.options, device);
  stepper.enter(world);
  torch::Tensor& input = made.batch.inputs[0];
  if (input.is_floating_point()) input = input.to(stepper.update().input_type());
  const int steps = std::stoi(argv[4]);
  const int warm_up = steps / 4 + 1;
  std::chrono::steady_clock::time_point start;
  for (int step = 0; step < warm_up + steps; ++step) {
    if (step == warm_up) start = std::chrono::steady_clock::now();
    stepper.step({made.batch}, made.options.lr);  // returns the loss, and so has waited for the GPU
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("samples_per_second %.1f\n", static_cast<double>(batch_size) * steps / time.count());
}
