#include "torch/sparse_rows.h"

#include <ATen/Dispatch.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collective/counts.h"
#include "sullae/communicator.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

std::int64_t elements_of_row(const torch::Tensor& values) {
  return values.size(0) == 0 ? 0 : values.numel() / values.size(0);
}

template <class T>
void add_row(T* into, const T* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) into[i] += from[i];
}

// Rows in the order of `order`; `first[k]` starts the run of rows that share the k-th distinct
// number.
struct Runs {
  std::vector<std::int64_t> order;
  std::vector<std::size_t> first;
};

Runs find_runs(const std::int64_t* indices, std::int64_t n) {
  Runs runs;
  runs.order.resize(static_cast<std::size_t>(n));
  std::iota(runs.order.begin(), runs.order.end(), std::int64_t{0});
  // Equal numbers keep their order, so that sums are the same in every run.
  std::ranges::stable_sort(runs.order, {}, [&](std::int64_t i) { return indices[i]; });
  for (std::size_t i = 0; i < runs.order.size(); ++i) {
    if (i == 0 || indices[runs.order[i]] != indices[runs.order[i - 1]]) runs.first.push_back(i);
  }
  return runs;
}

// Sums the rows of `values` that share a number, and scales the sums.
SparseRows sum_runs(const std::int64_t* indices, const torch::Tensor& values, double scale) {
  const Runs runs = find_runs(indices, values.size(0));
  const std::int64_t width = elements_of_row(values);
  SparseRows rows;
  rows.indices.reserve(runs.first.size());
  auto shape = values.sizes().vec();
  shape[0] = static_cast<std::int64_t>(runs.first.size());
  rows.values = torch::empty(shape, values.options());
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "sullae::sum_runs", [&] {
    const scalar_t* from = values.data_ptr<scalar_t>();
    scalar_t* into = rows.values.data_ptr<scalar_t>();
    for (std::size_t k = 0; k < runs.first.size(); ++k, into += width) {
      const std::size_t begin = runs.first[k];
      const std::size_t end = k + 1 < runs.first.size() ? runs.first[k + 1] : runs.order.size();
      rows.indices.push_back(indices[runs.order[begin]]);
      std::memcpy(into, from + runs.order[begin] * width,
                  static_cast<std::size_t>(width) * sizeof(scalar_t));
      for (std::size_t i = begin + 1; i < end; ++i)
        add_row(into, from + runs.order[i] * width, width);
      if (scale != 1.0) {
        for (std::int64_t i = 0; i < width; ++i) into[i] *= static_cast<scalar_t>(scale);
      }
    }
  });
  return rows;
}

}  // namespace

bool is_row_sparse(const torch::Tensor& gradient) {
  return gradient.is_sparse() && gradient.sparse_dim() == 1 && gradient.is_floating_point();
}

torch::ScalarType row_type(torch::ScalarType type) {
  return type == torch::kFloat64 ? type : torch::kFloat32;
}

SparseRows SparseRows::from(const torch::Tensor& gradient) {
  const torch::Tensor indices = gradient._indices().to(torch::kCPU).contiguous();
  const torch::Tensor values =
      gradient._values().to(torch::kCPU, row_type(gradient.scalar_type())).contiguous();
  const auto* numbers = indices.data_ptr<std::int64_t>();
  if (gradient.is_coalesced()) return {{numbers, numbers + indices.size(1)}, values};
  return sum_runs(numbers, values, 1.0);
}

torch::Tensor SparseRows::to_tensor(torch::IntArrayRef shape) const {
  const auto numbers =
      torch::tensor(indices, torch::kInt64).reshape({1, static_cast<std::int64_t>(indices.size())});
  return torch::_sparse_coo_tensor_unsafe(numbers, values, shape,
                                          values.options().layout(torch::kSparse))
      ._coalesced_(true);
}

bool moves_fewer_bytes_dense(std::size_t gathered_rows, std::size_t all_rows,
                             std::size_t row_bytes) {
  // Both of an allreduce's halves carry everything; a gather carries rows and their numbers once.
  // A byte for each row says whether anybody touched it.
  const std::size_t dense = 2 * all_rows * (row_bytes + 1);
  return dense < gathered_rows * (row_bytes + sizeof(std::int64_t));
}

namespace {

SparseRows reduce_dense(Communicator& communicator, const SparseRows& mine, std::int64_t all_rows,
                        ReduceOp op) {
  auto shape = mine.values.sizes().vec();
  shape[0] = all_rows;
  const torch::Tensor dense = torch::zeros(shape, mine.values.options());
  std::vector<std::uint8_t> touched(static_cast<std::size_t>(all_rows), 0);
  for (const auto row : mine.indices) touched[static_cast<std::size_t>(row)] = 1;
  const auto own = static_cast<std::int64_t>(mine.indices.size());
  if (own > 0) dense.index_copy_(0, torch::tensor(mine.indices, torch::kInt64), mine.values);
  communicator.allreduce(touched.data(), touched.data(), touched.size(), DataType::uint8,
                         ReduceOp::max);
  communicator.allreduce(dense.data_ptr(), dense.data_ptr(),
                         static_cast<std::size_t>(dense.numel()),
                         data_type(dense.scalar_type(), "a sparse gradient"), op);
  SparseRows rows;
  for (std::size_t row = 0; row < touched.size(); ++row) {
    if (touched[row] != 0) rows.indices.push_back(static_cast<std::int64_t>(row));
  }
  rows.values = dense.index_select(0, torch::tensor(rows.indices, torch::kInt64));
  return rows;
}

}  // namespace

ReducedRows reduce_rows(Communicator& communicator, const SparseRows& mine, bool used,
                        std::int64_t all_rows, ReduceOp op) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::vector<std::size_t> ones(ranks, 1);
  // Rows plus one, or zero for a rank without a gradient.
  const std::int64_t announced = used ? static_cast<std::int64_t>(mine.indices.size()) + 1 : 0;
  std::vector<std::int64_t> all(ranks);
  communicator.allgather(&announced, all.data(), ones, DataType::int64);

  ReducedRows result;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> value_counts;
  const auto shape_of_row = mine.values.sizes().slice(1);
  const std::int64_t width = std::accumulate(shape_of_row.begin(), shape_of_row.end(),
                                             std::int64_t{1}, std::multiplies<>());
  for (const std::int64_t count : all) {
    result.used = result.used || count > 0;
    counts.push_back(static_cast<std::size_t>(std::max<std::int64_t>(count - 1, 0)));
    value_counts.push_back(counts.back() * static_cast<std::size_t>(width));
  }
  const std::size_t total = offsets_of(counts).back();
  if (moves_fewer_bytes_dense(total, static_cast<std::size_t>(all_rows),
                              static_cast<std::size_t>(width) * mine.values.element_size())) {
    result.rows = reduce_dense(communicator, mine, all_rows, op);
    return result;
  }
  std::vector<std::int64_t> indices(total);
  communicator.allgather(mine.indices.data(), indices.data(), counts, DataType::int64);
  auto shape = mine.values.sizes().vec();
  shape[0] = static_cast<std::int64_t>(total);
  const torch::Tensor values = torch::empty(shape, mine.values.options());
  communicator.allgather(mine.values.data_ptr(), values.data_ptr(), value_counts,
                         data_type(values.scalar_type(), "a sparse gradient"));
  result.rows = sum_runs(indices.data(), values,
                         op == ReduceOp::average ? 1.0 / static_cast<double>(ranks) : 1.0);
  return result;
}

}  // namespace sullae
