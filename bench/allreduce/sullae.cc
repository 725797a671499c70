// Usage: bench_allreduce_sullae [--in-bucket] BYTES…
#include "sullae/sullae.h"

#include <cstring>
#include <vector>

#include "measure.h"

int main(int argc, char** argv) {
  const sullae::World world = sullae::init();
  const bool in_bucket = argc > 1 && std::strcmp(argv[1], "--in-bucket") == 0;
  if (in_bucket) {
    ++argv;
    --argc;
  }
  const std::size_t count = bench::largest_count(argc, argv);
  std::vector<float> ordinary(in_bucket ? 0 : count);
  const auto shared = world.allocate_shared(in_bucket ? count * sizeof(float) : 64);
  bench::run({.rank = world.rank(),
              .size = world.size(),
              .buffer = in_bucket ? reinterpret_cast<float*>(shared.get()) : ordinary.data(),
              .barrier = [&] { world.barrier(); },
              .allreduce =
                  [&](float* data, std::size_t n) {
                    world.allreduce(data, data, n, sullae::DataType::float32);
                  }},
             argc, argv);
  sullae::shutdown();
}
