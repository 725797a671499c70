// Our input pipeline on the same folder, with the same transforms and workers.
//
//   pipeline_images PATH BATCH_SIZE WORKERS EPOCHS
//
// Prints images a second.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sullae/data.h"

using namespace sullae::data;

namespace {

constexpr std::size_t kSide = 224;

struct Batch {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto set = open_dataset({argv[1]});
  const auto batch_size = static_cast<std::size_t>(std::atoi(argv[2]));
  const auto workers = static_cast<std::size_t>(std::atoi(argv[3]));
  const auto epochs = static_cast<std::size_t>(std::atoi(argv[4]));
  const ImageTransform transform(
      {.size = kSide, .augmentation = Augmentation::random_resized_crop});
  std::size_t images = 0;
  auto start = std::chrono::steady_clock::now();
  for (std::size_t epoch = 0; epoch <= epochs; ++epoch) {
    if (epoch == 1) start = std::chrono::steady_clock::now();
    const auto order = epoch_order(set->size(), {.seed = 1}, epoch);
    Prefetcher<Batch> batches(
        (order.size() + batch_size - 1) / batch_size,
        {.make =
             [&](std::size_t index) {
               const std::size_t count = std::min(batch_size, order.size() - index * batch_size);
               return std::pair(Batch{std::vector<float>(count * 3 * kSide * kSide),
                                      std::vector<std::int64_t>(count)},
                                count);
             },
         .fill =
             [&](Batch& batch, std::size_t index, std::size_t slot) {
               const std::size_t sample = order[index * batch_size + slot];
               const Example example = set->read(sample);
               transform.apply(example, Random(1, epoch, sample),
                               batch.images.data() + slot * 3 * kSide * kSide);
               batch.labels[slot] = *example.integer(feature::kLabel);
             }},
        {.workers = workers, .depth = 2 * workers});
    while (const auto batch = batches.next()) images += epoch > 0 ? batch->labels.size() : 0;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%f\n", static_cast<double>(images) / seconds.count());
}
