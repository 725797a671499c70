#include "parallel/shard_exchange.h"

#include <torch/torch.h>

#include <thread>
#include <utility>

#include "parallel/flat.h"
#include "sullae/adapter.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

std::shared_ptr<std::byte> memory_on(torch::Device device, std::size_t bytes) {
  const auto tensor =
      torch::empty({length(bytes)}, torch::TensorOptions(torch::kUInt8).device(device));
  return {static_cast<std::byte*>(tensor.data_ptr()), [tensor](std::byte*) {
          }};
}

DataType type_of(const ShardRange& range) {
  return data_type(range.shard.scalar_type(), "parameters");
}

void copy_to_device(const WholeMemory& whole) {
  const auto as_tensor = [&](std::byte* memory, torch::Device where) {
    return torch::from_blob(memory, {length(whole.bytes)},
                            torch::TensorOptions(torch::kUInt8).device(where));
  };
  as_tensor(whole.here.get(), whole.device).copy_(as_tensor(whole.host.get(), torch::kCPU));
}

}  // namespace

PendingGather::~PendingGather() {
  while (!handle_.done()) std::this_thread::yield();
}

void PendingGather::wait() {
  handle_.wait();
  if (turn_) turn_->await();
  if (const auto landed = std::move(lands_)) copy_to_device(*landed);
}

ShardExchange::ShardExchange(const World& world, torch::Device device)
    : world_(world), device_(device), in_stream_(device.is_cuda() && world.size() == 1) {
  if (device.is_cuda()) nccl_ = AdapterView(world).device_communicator(device.index());
  in_stream_ |= nccl_ != nullptr;
}

WholeMemory ShardExchange::allocate(std::size_t bytes) const {
  if (in_stream_) return allocate_alone(bytes);
  WholeMemory whole{.host = world_.allocate_shared(bytes), .bytes = bytes, .device = device_};
  whole.here = device_.is_cpu() ? whole.host : memory_on(device_, bytes);
  return whole;
}

WholeMemory ShardExchange::allocate_alone(std::size_t bytes) const {
  WholeMemory whole{.here = memory_on(device_, bytes), .bytes = bytes, .device = device_};
  if (!in_stream_) whole.host = device_.is_cpu() ? whole.here : memory_on(torch::kCPU, bytes);
  return whole;
}

PendingGather ShardExchange::gather(const WholeMemory& whole, std::vector<ShardRange> ranges,
                                    const std::string& name) {
  if (in_stream_) return gather_in_stream(whole, ranges, name);
  PendingGather pending;
  if (!device_.is_cpu()) {
    for (ShardRange& range : ranges) range.shard = range.shard.to(torch::kCPU);
    pending.lands_ = std::make_unique<WholeMemory>(whole);
  }
  pending.handle_ = AdapterView(world_).submit(
      [ranges = std::move(ranges), to = whole.host](Communicator& communicator) {
        for (const ShardRange& range : ranges)
          communicator.allgather(range.shard.data_ptr(), to.get() + range.offset, *range.counts,
                                 type_of(range));
      },
      {.name = name, .bytes = whole.bytes});
  return pending;
}

PendingGather ShardExchange::gather_in_stream(const WholeMemory& whole,
                                              const std::vector<ShardRange>& ranges,
                                              const std::string& name) {
  PendingGather pending;
  if (!nccl_) {
    for (const ShardRange& range : ranges)
      torch::from_blob(whole.here.get() + range.offset, range.shard.sizes(), range.shard.options())
          .copy_(range.shard);
    return pending;
  }
  // NCCL compares nothing.
  while (!named_.empty() && named_.front().done()) check_first();
  named_.push_back(AdapterView(world_).submit([](Communicator&) {}, {.name = name}));
  auto turn = std::make_unique<DeviceTurn>(*nccl_, device_);
  for (const ShardRange& range : ranges)
    nccl_->allgather(range.shard.data_ptr(), whole.here.get() + range.offset, *range.counts,
                     type_of(range));
  turn->end();
  pending.turn_ = std::move(turn);
  return pending;
}

void ShardExchange::check() {
  while (!named_.empty()) check_first();
}

// NCCL has begun different things by then, which nothing ends but the end of the world.
void ShardExchange::check_first() {
  const Handle first = std::move(named_.front());
  named_.pop_front();
  try {
    first.wait();
  } catch (const MismatchError& error) {
    AdapterView(world_).fail(error.what());
    throw;
  }
}

std::shared_ptr<std::byte> ShardExchange::allocate_sums(std::size_t bytes) const {
  return in_stream_ ? allocate_sums_alone(bytes) : world_.allocate_shared(bytes);
}

std::shared_ptr<std::byte> ShardExchange::allocate_sums_alone(std::size_t bytes) const {
  return memory_on(reduces_on(), bytes);
}

void ShardExchange::reduce(Communicator& communicator, const std::byte* sums,
                           const std::vector<ShardRange>& ranges, ReduceOp op) {
  for (const ShardRange& range : ranges)
    communicator.reducescatter(sums + range.offset, range.shard.data_ptr(), *range.counts,
                               type_of(range), op);
}

std::shared_ptr<const DeviceTurn> ShardExchange::start_reduce(const std::byte* sums,
                                                              const std::vector<ShardRange>& ranges,
                                                              ReduceOp op) const {
  if (!nccl_) {
    for (const ShardRange& range : ranges) {
      torch::Tensor shard = range.shard;
      shard.copy_(torch::from_blob(const_cast<std::byte*>(sums) + range.offset, shard.sizes(),
                                   shard.options()));
    }
    return nullptr;
  }
  auto turn = std::make_shared<DeviceTurn>(*nccl_, device_);
  for (const ShardRange& range : ranges)
    nccl_->reducescatter(sums + range.offset, range.shard.data_ptr(), *range.counts, type_of(range),
                         op);
  turn->end();
  return turn;
}

}  // namespace sullae
