#include <fmt/format.h>
#include <torch/cuda.h>

#include <functional>
#include <numeric>

#include "sullae/communicator.h"
#include "sullae/torch.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

// The tensor itself where the transports can work on it, else a copy that they can.
torch::Tensor host_copy(const torch::Tensor& tensor) {
  if (tensor.layout() != torch::kStrided)
    throw InputError("collectives on tensors take dense tensors");
  return tensor.detach().to(torch::kCPU).contiguous();
}

void copy_back(torch::Tensor& tensor, const torch::Tensor& host) {
  if (tensor.data_ptr() == host.data_ptr()) return;
  const torch::NoGradGuard guard;
  tensor.copy_(host);
}

std::size_t count_of(const torch::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

// Rows along dimension 0 and the elements of one.
std::int64_t divide_rows(const torch::Tensor& tensor, int size, const char* what) {
  if (tensor.dim() == 0 || tensor.size(0) % size != 0) {
    throw InputError(fmt::format("{}: dimension 0 of the tensor must be a multiple of the {} ranks",
                                 what, size));
  }
  return tensor.size(0) / size;
}

}  // namespace

torch::Device local_device(World& world) {
  const auto devices = static_cast<int>(torch::cuda::device_count());
  if (devices == 0) return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(world.local_rank() % devices)};
}

void allreduce(torch::Tensor& tensor, ReduceOp op, World& world) {
  const torch::Tensor host = host_copy(tensor);
  const DataType type = data_type(host.scalar_type(), "allreduce: the tensor");
  world.allreduce(host.data_ptr(), host.data_ptr(), count_of(host), type, op);
  copy_back(tensor, host);
}

Handle allreduce_async(torch::Tensor& tensor, ReduceOp op, const AsyncOptions& options,
                       World& world) {
  if (!tensor.device().is_cpu() || tensor.layout() != torch::kStrided || !tensor.is_contiguous()) {
    throw InputError("allreduce_async takes a contiguous dense tensor in host memory");
  }
  const DataType type = data_type(tensor.scalar_type(), "allreduce_async: the tensor");
  AsyncOptions with_shape = options;
  with_shape.shape = fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
  const Handle handle = world.allreduce_async(tensor.data_ptr(), tensor.data_ptr(),
                                              count_of(tensor), type, op, with_shape);
  handle.then([tensor](const std::exception_ptr&) {});  // keeps it alive until then
  return handle;
}

void broadcast(torch::Tensor& tensor, int root, World& world) {
  const torch::Tensor host = host_copy(tensor);
  world.broadcast(host.data_ptr(), count_of(host),
                  data_type(host.scalar_type(), "broadcast: the tensor"), root);
  copy_back(tensor, host);
}

torch::Tensor allgather(const torch::Tensor& tensor, World& world) {
  const torch::Tensor host = host_copy(tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor);
  const DataType type = data_type(host.scalar_type(), "allgather: the tensor");
  const std::int64_t rows = host.size(0);
  std::vector<std::int64_t> all_rows(static_cast<std::size_t>(world.size()));
  world.allgather(&rows, all_rows.data(), 1, DataType::int64);
  auto shape = host.sizes().vec();
  const std::int64_t row_elements =
      std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<std::size_t> counts;
  for (const std::int64_t r : all_rows)
    counts.push_back(static_cast<std::size_t>(r * row_elements));
  shape[0] = std::accumulate(all_rows.begin(), all_rows.end(), std::int64_t{0});
  torch::Tensor result = torch::empty(shape, host.options());
  world.allgatherv(host.data_ptr(), result.data_ptr(), counts, type);
  return result.to(tensor.device());
}

torch::Tensor reducescatter(const torch::Tensor& tensor, ReduceOp op, World& world) {
  const torch::Tensor host = host_copy(tensor);
  auto shape = host.sizes().vec();
  shape.at(0) = divide_rows(host, world.size(), "reducescatter");
  torch::Tensor result = torch::empty(shape, host.options());
  world.reducescatter(host.data_ptr(), result.data_ptr(), count_of(result),
                      data_type(host.scalar_type(), "reducescatter: the tensor"), op);
  return result.to(tensor.device());
}

torch::Tensor alltoall(const torch::Tensor& tensor, World& world) {
  const torch::Tensor host = host_copy(tensor);
  divide_rows(host, world.size(), "alltoall");
  torch::Tensor result = torch::empty_like(host);
  world.alltoall(host.data_ptr(), result.data_ptr(),
                 count_of(host) / static_cast<std::size_t>(world.size()),
                 data_type(host.scalar_type(), "alltoall: the tensor"));
  return result.to(tensor.device());
}

std::map<std::string, double> average_metrics(const std::map<std::string, double>& metrics,
                                              double weight, World& world) {
  std::vector<double> sums{weight};
  for (const auto& [name, value] : metrics) sums.push_back(value * weight);
  world.allreduce(sums.data(), sums.data(), sums.size(), DataType::float64, ReduceOp::sum);
  std::map<std::string, double> averages;
  std::size_t i = 1;
  for (const auto& [name, value] : metrics) averages[name] = sums[i++] / sums[0];
  return averages;
}

}  // namespace sullae
