// Usage: bench_messages_sullae BYTES…
#include "sullae/sullae.h"

#include "measure.h"

int main(int argc, char** argv) {
  const sullae::World world = sullae::init();
  if (world.rank() < 2) {
    bench::run({.rank = world.rank(),
                .send = [&](const void* data, std::size_t bytes,
                            int to) { world.send(data, bytes, sullae::DataType::uint8, to); },
                .receive =
                    [&](void* data, std::size_t bytes, int from) {
                      world.receive(data, bytes, sullae::DataType::uint8, from);
                    }},
               argc, argv);
  }
  sullae::shutdown();
}
