#include "c10d_sparse.h"

#include <numeric>
#include <string>

#include "collective/allgather_texts.h"

namespace sullae::python {
namespace {

std::string described(const at::Tensor& tensor) {
  return fmt::format("a sparse tensor of {} {} with {} sparse dimensions", shape_of(tensor),
                     c10::toString(tensor.scalar_type()), tensor.sparse_dim());
}

void check_same(Communicator& ranks, const at::Tensor& tensor) {
  const auto all = allgather_texts(ranks, described(tensor));
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw MismatchError(fmt::format("all_reduce: ranks disagree: rank 0 has {}, but rank {} {}",
                                    all[0], r, all[r]));
  }
}

// Every rank's rows, the first rank's first.
at::Tensor gather_rows(Communicator& ranks, const at::Tensor& rows,
                       const std::vector<std::int64_t>& counts) {
  auto shape = rows.sizes().vec();
  shape[0] = 1;
  const auto row = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  shape[0] = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const at::Tensor all = at::empty(shape, rows.options());
  const Moved moved(rows);
  Counts elements;
  for (const std::int64_t count : counts)
    elements.push_back(static_cast<std::size_t>(count) * row * moved.scale);
  ranks.allgather(rows.data_ptr(), all.data_ptr(), elements, moved.type);
  return all;
}

}  // namespace

void check_sparse(const at::Tensor& tensor, const Reduction& reduction) {
  const bool averages = reduction.kind == c10d::ReduceOp::AVG;
  if (!averages && reduction.kind != c10d::ReduceOp::SUM)
    throw InputError(fmt::format(
        "all_reduce of a sparse tensor of {}: expected ReduceOp.SUM or AVG, since elements that a "
        "rank does not name are zeros",
        shape_of(tensor)));
  const bool divides = tensor.is_floating_point() || tensor.is_complex();
  if (tensor.scalar_type() == at::kBool || (averages && !divides))
    throw InputError(fmt::format("all_reduce ({}) of a sparse tensor of {}: expected {}",
                                 averages ? "AVG" : "SUM", c10::toString(tensor.scalar_type()),
                                 averages ? "floating point numbers" : "numbers"));
}

void reduce_sparse(Communicator& ranks, at::Tensor tensor, const Reduction& reduction) {
  check_same(ranks, tensor);
  const at::Tensor own = tensor.coalesce();
  const std::int64_t count = own.values().size(0);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks.size()));
  ranks.allgather(&count, counts.data(), same_counts(ranks.size(), 1), DataType::int64);
  // Columns of indices, as [elements, dimensions], so that each rank's are in one piece.
  const at::Tensor indices = gather_rows(ranks, own.indices().t().contiguous(), counts).t();
  const at::Tensor values = gather_rows(ranks, own.values().contiguous(), counts);
  // In the order of ranks on each of them, so that sums are the same.
  at::Tensor sum = at::sparse_coo_tensor(indices, values, tensor.sizes()).coalesce();
  if (reduction.kind == c10d::ReduceOp::AVG) sum.div_(ranks.size());
  tensor.copy_(sum);
}

}  // namespace sullae::python
