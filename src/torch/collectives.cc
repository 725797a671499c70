#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "torch/device_order.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

// A tensor that the world can work on: itself where it can, else a copy, in host memory unless
// there is a device communicator.
class Reachable {
 public:
  Reachable(const torch::Tensor& tensor, const World& world, ReduceOp op = ReduceOp::sum)
      : device_(op == ReduceOp::adasum ? nullptr : device_communicator(tensor, world)) {
    if (tensor.layout() != torch::kStrided)
      throw InputError("collectives on tensors take dense tensors");
    values_ = tensor.detach();
    if (device_ == nullptr) values_ = values_.to(torch::kCPU);
    values_ = values_.contiguous();
  }

  const torch::Tensor& values() const { return values_; }

  // Calls `call` with the device communicator, in its turn, or with the world.
  template <class Call>
  void run(const World& world, const Call& call) const {
    if (device_ == nullptr) return call(world);
    DeviceTurn turn(*device_, values_.device());
    call(*device_);
    turn.end();
    turn.await();
  }

 private:
  std::shared_ptr<DeviceCommunicator> device_;
  torch::Tensor values_;
};

// What both have, under one name; a GPU's ranks have no channel for the shape.
void allreduce_of(std::string_view shape, const World& world, auto... arguments) {
  world.allreduce(arguments..., shape);
}
void allreduce_of(std::string_view, DeviceCommunicator& device, auto... arguments) {
  device.allreduce(arguments...);
}
void broadcast_of(std::string_view shape, const World& world, auto... arguments) {
  world.broadcast(arguments..., shape);
}
void broadcast_of(std::string_view, DeviceCommunicator& device, auto... arguments) {
  device.broadcast(arguments...);
}
void allgather_of(std::string_view shape, const World& world, auto... arguments) {
  world.allgatherv(arguments..., shape);
}
void allgather_of(std::string_view, DeviceCommunicator& device, auto... arguments) {
  device.allgather(arguments...);
}
void reducescatter_of(std::string_view shape, const World& world, auto... arguments) {
  world.reducescatterv(arguments..., shape);
}
void reducescatter_of(std::string_view, DeviceCommunicator& device, auto... arguments) {
  device.reducescatter(arguments...);
}
void alltoall_of(std::string_view shape, const World& world, auto... arguments) {
  world.alltoallv(arguments..., shape);
}
void alltoall_of(std::string_view, DeviceCommunicator& device, auto... arguments) {
  device.alltoall(arguments...);
}

void copy_back(const torch::Tensor& tensor, const torch::Tensor& values) {
  if (tensor.data_ptr() == values.data_ptr()) return note_write(tensor);
  const torch::NoGradGuard guard;
  tensor.copy_(values);
}

// Rows along dimension 0 and the elements of one.
std::int64_t divide_rows(const torch::Tensor& tensor, int size, const char* what) {
  if (tensor.dim() == 0 || tensor.size(0) % size != 0) {
    throw InputError(fmt::format("{}: dimension 0 of the tensor must be a multiple of the {} ranks",
                                 what, size));
  }
  return tensor.size(0) / size;
}

// Values of different names have nothing to do with each other.
void check_same_names(const std::map<std::string, double>& metrics, const World& world) {
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  const auto found = first_difference(world, names);
  if (!found) return;
  throw MismatchError(
      fmt::format("average_metrics: ranks have different metrics: rank 0 has ({}), but rank {} has "
                  "({}): expected the same names on every rank",
                  found->on_rank_0, found->rank, found->on_rank));
}

}  // namespace

torch::Device local_device(const World& world) {
  const auto devices = static_cast<int>(torch::cuda::device_count());
  if (devices == 0) return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(world.local_rank() % devices)};
}

void allreduce(const torch::Tensor& tensor, ReduceOp op, const World& world) {
  check_writable(tensor, "allreduce");
  const Reachable reachable(tensor, world, op);
  const torch::Tensor& values = reachable.values();
  const DataType type = data_type(values.scalar_type(), "allreduce: the tensor");
  reachable.run(world, [&](auto& with) {
    allreduce_of(shape_of(values), with, values.data_ptr(), values.data_ptr(), count_of(values),
                 type, op);
  });
  copy_back(tensor, values);
}

Handle allreduce_async(const torch::Tensor& tensor, ReduceOp op, const AsyncOptions& options,
                       const World& world) {
  check_writable(tensor, "allreduce_async");
  check_plain(tensor, "allreduce_async", options.name);
  note_write(tensor);
  const DataType type = data_type(tensor.scalar_type(), "allreduce_async: the tensor");
  AsyncOptions with_shape = options;
  with_shape.shape = shape_of(tensor);
  const Handle handle = world.allreduce_async(tensor.data_ptr(), tensor.data_ptr(),
                                              count_of(tensor), type, op, with_shape);
  handle.then([tensor](const std::exception_ptr&) {});  // keeps it alive until then
  return handle;
}

void broadcast(const torch::Tensor& tensor, int root, const World& world) {
  check_writable(tensor, "broadcast");
  if (root < 0 || root >= world.size())  // a device's communicator does not look
    throw InputError(
        fmt::format("root {}: expected a rank between 0 and {}", root, world.size() - 1));
  const Reachable reachable(tensor, world);
  const torch::Tensor& values = reachable.values();
  const DataType type = data_type(values.scalar_type(), "broadcast: the tensor");
  reachable.run(world, [&](auto& with) {
    broadcast_of(shape_of(values), with, values.data_ptr(), count_of(values), type, root);
  });
  copy_back(tensor, values);
}

torch::Tensor allgather(const torch::Tensor& tensor, const World& world) {
  check_defined(tensor, "allgather");
  const Reachable reachable(tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor, world);
  const torch::Tensor& values = reachable.values();
  const DataType type = data_type(values.scalar_type(), "allgather: the tensor");
  const std::int64_t rows = values.size(0);
  std::vector<std::int64_t> all_rows(static_cast<std::size_t>(world.size()));
  const std::vector<std::size_t> one(all_rows.size(), 1);
  world.allgatherv(&rows, all_rows.data(), one, DataType::int64, rows_of(values));
  auto shape = values.sizes().vec();
  const std::int64_t row_elements =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<std::size_t> counts;
  for (const std::int64_t r : all_rows)
    counts.push_back(static_cast<std::size_t>(r * row_elements));
  shape[0] = std::accumulate(all_rows.begin(), all_rows.end(), std::int64_t{0});
  torch::Tensor result = torch::empty(shape, values.options());
  reachable.run(world, [&](auto& with) {
    allgather_of(rows_of(values), with, values.data_ptr(), result.data_ptr(),
                 std::span<const std::size_t>(counts), type);
  });
  return result.to(tensor.device());
}

torch::Tensor reducescatter(const torch::Tensor& tensor, ReduceOp op, const World& world) {
  check_defined(tensor, "reducescatter");
  const Reachable reachable(tensor, world);
  const torch::Tensor& values = reachable.values();
  auto shape = values.sizes().vec();
  shape.at(0) = divide_rows(values, world.size(), "reducescatter");
  const DataType type = data_type(values.scalar_type(), "reducescatter: the tensor");
  torch::Tensor result = torch::empty(shape, values.options());
  const std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), count_of(result));
  reachable.run(world, [&](auto& with) {
    reducescatter_of(shape_of(values), with, values.data_ptr(), result.data_ptr(),
                     std::span<const std::size_t>(counts), type, op);
  });
  return result.to(tensor.device());
}

torch::Tensor alltoall(const torch::Tensor& tensor, const World& world) {
  check_defined(tensor, "alltoall");
  const Reachable reachable(tensor, world);
  const torch::Tensor& values = reachable.values();
  divide_rows(values, world.size(), "alltoall");
  const DataType type = data_type(values.scalar_type(), "alltoall: the tensor");
  torch::Tensor result = torch::empty_like(values);
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<std::size_t> counts(ranks, count_of(values) / ranks);
  reachable.run(world, [&](auto& with) {
    alltoall_of(rows_of(values), with, values.data_ptr(), std::span<const std::size_t>(counts),
                result.data_ptr(), std::span<const std::size_t>(counts), type);
  });
  return result.to(tensor.device());
}

std::map<std::string, double> average_metrics(const std::map<std::string, double>& metrics,
                                              double weight, const World& world) {
  check_same_names(metrics, world);
  std::vector<double> sums{weight};
  // What a rank without samples has is often no number.
  for (const auto& [name, value] : metrics) sums.push_back(weight == 0 ? 0 : value * weight);
  world.allreduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  std::map<std::string, double> averages;
  std::size_t i = 1;
  for (const auto& [name, value] : metrics) averages[name] = sums[i++] / sums[0];
  return averages;
}

}  // namespace sullae
