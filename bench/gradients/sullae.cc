// Usage: bench_gradients_sullae resnet50|small
//
// planned    buckets of 4 MB in shared memory, in a fixed order, as DistributedOptimizer does
// negotiated a named allreduce a tensor, in shared memory
// grouped    all tensors under one name, in ordinary memory
// ordinary   a named allreduce a tensor, in ordinary memory
#include "sullae/sullae.h"

#include "shapes.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"

int main(int argc, char** argv) {
  const sullae::World world = sullae::init();
  const auto sizes = bench::sizes_named(argc > 1 ? argv[1] : "resnet50");
  const auto type = sullae::DataType::float32;
  std::size_t total = 0;
  for (auto size : sizes) total += (size + 15) / 16 * 16;
  const auto shared = world.allocate_shared(total * sizeof(float));
  std::vector<float> ordinary(total);
  const auto lay_out = [&](float* memory) {
    std::vector<sullae::TensorBuffers> tensors;
    for (auto size : sizes) {
      tensors.push_back({memory, memory, size});
      memory += (size + 15) / 16 * 16;
    }
    return tensors;
  };
  const auto in_shared = lay_out(reinterpret_cast<float*>(shared.get()));
  const auto in_ordinary = lay_out(ordinary.data());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) names.push_back("gradient." + std::to_string(i));
  std::vector<sullae::Handle> handles;
  const auto wait = [&] {
    for (const auto& handle : handles) handle.wait();
    handles.clear();
  };
  const auto barrier = [&] {
    world.barrier();
  };
  const int steps = 30;

  bench::run("planned", world.rank(), steps, barrier, [&] {
    constexpr std::size_t kBucket = std::size_t{1} << 20;
    auto* const memory = reinterpret_cast<float*>(shared.get());
    for (std::size_t at = 0; at < total; at += kBucket) {
      const std::size_t count = std::min(kBucket, total - at);
      handles.push_back(sullae::AdapterView(world).submit([=](sullae::Communicator& communicator) {
        communicator.allreduce(memory + at, memory + at, count, type, sullae::ReduceOp::sum);
      }));
    }
    wait();
  });
  const auto one_by_one = [&](const std::vector<sullae::TensorBuffers>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      handles.push_back(world.allreduce_async(tensors[i].in, tensors[i].out, tensors[i].count, type,
                                              sullae::ReduceOp::sum, {.name = names[i]}));
    }
    wait();
  };
  bench::run("negotiated", world.rank(), steps, barrier, [&] { one_by_one(in_shared); });
  bench::run("ordinary", world.rank(), steps, barrier, [&] { one_by_one(in_ordinary); });
  bench::run("grouped", world.rank(), steps, barrier, [&] {
    world.grouped_allreduce_async(in_ordinary, type, sullae::ReduceOp::sum, {.name = "group"})
        .wait();
  });
  sullae::shutdown();
}
