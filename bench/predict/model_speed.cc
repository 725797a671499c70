// What a model of texts computes a second, when nothing else is to be done: texts are numbers in
// memory, in batches of about equal lengths.
//   bench_model_speed MODEL DATA BATCH THREADS
// Prints "samples_per_second", the best of three rounds.
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "data/tools/work.h"
#include "serve/model/model.h"
#include "serve/model/words_codec.h"
#include "torch/blas_threads.h"
#include "train/find_model.h"

int main(int argc, char** argv) {
  using namespace sullae;
  if (argc != 5) return 2;
  torch::set_num_threads(1);
  torch::jit::setGraphExecutorOptimize(false);
  const BlasThreads one(1);
  const auto found = train::find_model(argv[1]);
  const serve::Model model(found.file, serve::read_model_config(found.config));
  const auto set = data::open_dataset({argv[2]}, {.unlabelled = true});
  const std::size_t size = std::stoul(argv[3]);
  std::vector<std::vector<std::int64_t>> texts;
  for (std::size_t i = 0; i < set->size(); ++i)
    texts.push_back(std::move(model.codec().decode(set->read(i)).words.front()));
  std::ranges::stable_sort(texts, {}, [](const auto& text) { return text.size(); });
  std::vector<serve::Rows> batches;
  for (std::size_t from = 0; from < texts.size(); from += size) {
    const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end =
        texts.begin() + static_cast<std::ptrdiff_t>(std::min(from + size, texts.size()));
    batches.push_back(serve::rows_of_words({begin, end}));
  }
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    data::work_in_parallel(
        batches.size(), std::stoul(argv[4]), [](std::size_t) {},
        [&](std::size_t batch, std::atomic<std::size_t>&) { model.run({&batches[batch]}); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(texts.size()) / seconds.count());
  }
  fmt::print("{{\"samples_per_second\": {:.1f}}}\n", best);
  return 0;
}
