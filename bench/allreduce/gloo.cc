// Ranks find each other through files in $GLOO_STORE and, between hosts, listen on $GLOO_HOST.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "measure.h"

int main(int argc, char** argv) {
  const int rank = std::atoi(std::getenv("SULLAE_RANK"));
  const int size = std::atoi(std::getenv("SULLAE_SIZE"));
  const char* host = std::getenv("GLOO_HOST");
  auto device = gloo::transport::tcp::CreateDevice(host != nullptr ? host : "127.0.0.1");
  gloo::rendezvous::FileStore store(std::getenv("GLOO_STORE"));
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);

  std::vector<float> memory(bench::largest_count(argc, argv));
  std::uint32_t tag = 0;
  using Reduce = void (*)(void*, const void*, const void*, std::size_t);
  bench::run({.rank = rank,
              .size = size,
              .buffer = memory.data(),
              .barrier =
                  [&] {
                    gloo::BarrierOptions options(context);
                    options.setTag(tag++);
                    gloo::barrier(options);
                  },
              .allreduce =
                  [&](float* data, std::size_t count) {
                    gloo::AllreduceOptions options(context);
                    options.setOutput(data, count);
                    options.setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
                    options.setTag(tag++);
                    gloo::allreduce(options);
                  }},
             argc, argv);
}
