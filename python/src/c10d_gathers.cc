// Gathers, scatters and exchanges of torch.distributed.
#include <algorithm>

#include "c10d_backend.h"
#include "c10d_reduction.h"

namespace sullae::python {

using c10d::OpType;

C10dBackend::Work C10dBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  return allgather_coalesced(outputs, inputs, options);
}

C10dBackend::Work C10dBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& options) {
  if (outputs.size() != inputs.size())
    throw InputError(fmt::format("all_gather: {} lists of results for {} tensors", outputs.size(),
                                 inputs.size()));
  Tensors results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_host(inputs[i]);
    check_ranks(outputs[i], getSize(), "all_gather");
    results.insert(results.end(), outputs[i].begin(), outputs[i].end());
  }
  return start(OpType::ALLGATHER, results, in_background(options), [=](Communicator& ranks) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor input = inputs[i].contiguous();
      const Moved moved(input);
      const at::Tensor all = flat_like(outputs[i]);
      ranks.allgather(input.data_ptr(), all.data_ptr(), counts_of(outputs[i], moved), moved.type);
      share_out(all, outputs[i]);
    }
  });
}

C10dBackend::Work C10dBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

C10dBackend::Work C10dBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_host(inputs[i]);
    check_host(outputs.at(i));
    if (outputs[i].numel() != inputs[i].numel() * getSize()) {
      throw InputError(fmt::format(
          "all_gather_into_tensor: a result of {} for tensors of {} of {} ranks: expected {} "
          "elements",
          shape_of(outputs[i]), shape_of(inputs[i]), getSize(), inputs[i].numel() * getSize()));
    }
  }
  return start(OpType::_ALLGATHER_BASE, outputs, in_background(options), [=](Communicator& ranks) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor from = inputs[i].contiguous();
      const Written into(outputs[i]);
      const Moved moved(from);
      ranks.allgather(from.data_ptr(), into.memory().data_ptr(),
                      same_counts(ranks.size(), moved.count(from)), moved.type);
      into.finish();
    }
  });
}

C10dBackend::Work C10dBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                      const c10d::GatherOptions& options) {
  const at::Tensor input = only(inputs);
  const int root = static_cast<int>(options.rootRank);
  const Tensors results = getRank() == root ? outputs.at(0) : Tensors{};
  if (getRank() == root) check_ranks(results, getSize(), "gather");
  return start(OpType::GATHER, results, in_background(options), [=](Communicator& ranks) {
    const at::Tensor from = input.contiguous();
    const Moved moved(from);
    Counts sent = same_counts(ranks.size(), 0);
    sent[static_cast<std::size_t>(root)] = moved.count(from);
    const bool receives = ranks.rank() == root;
    const at::Tensor all = receives ? flat_like(results) : at::empty({0}, from.options());
    ranks.alltoall(from.data_ptr(), sent, all.data_ptr(),
                   receives ? counts_of(results, moved) : same_counts(ranks.size(), 0), moved.type);
    if (receives) share_out(all, results);
  });
}

C10dBackend::Work C10dBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                       const c10d::ScatterOptions& options) {
  const at::Tensor output = only(outputs);
  const int root = static_cast<int>(options.rootRank);
  const Tensors given = getRank() == root ? inputs.at(0) : Tensors{};
  if (getRank() == root) check_ranks(given, getSize(), "scatter");
  return start(OpType::SCATTER, outputs, in_background(options), [=](Communicator& ranks) {
    const Written into(output);
    const Moved moved(output);
    const bool sends = ranks.rank() == root;
    const at::Tensor all = sends ? flattened(given) : at::empty({0}, output.options());
    Counts received = same_counts(ranks.size(), 0);
    received[static_cast<std::size_t>(root)] = moved.count(output);
    ranks.alltoall(all.data_ptr(), sends ? counts_of(given, moved) : same_counts(ranks.size(), 0),
                   into.memory().data_ptr(), received, moved.type);
    into.finish();
  });
}

C10dBackend::Work C10dBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only(outputs);
  const Tensors parts = inputs.at(0);
  check_ranks(parts, getSize(), "reduce_scatter");
  check_reducible(output);
  const Reduction reduction(options.reduceOp);
  return start(OpType::REDUCE_SCATTER, outputs, in_background(options), [=](Communicator& ranks) {
    Counts counts;
    for (const at::Tensor& part : parts) counts.push_back(count_of(part));
    const Written into(output);
    reduction.reducescatter(ranks, flattened(parts), into.memory(), counts);
    into.finish();
  });
}

C10dBackend::Work C10dBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

C10dBackend::Work C10dBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_reducible(inputs[i]);
    check_reducible(outputs.at(i));
    if (inputs[i].numel() != outputs[i].numel() * getSize()) {
      throw InputError(fmt::format(
          "reduce_scatter_tensor: a result of {} of tensors of {} on {} ranks: expected {} "
          "elements",
          shape_of(outputs[i]), shape_of(inputs[i]), getSize(), inputs[i].numel() / getSize()));
    }
  }
  const Reduction reduction(options.reduceOp);
  return start(OpType::_REDUCE_SCATTER_BASE, outputs, in_background(options),
               [=](Communicator& ranks) {
                 for (std::size_t i = 0; i < inputs.size(); ++i) {
                   const Written into(outputs[i]);
                   reduction.reducescatter(ranks, inputs[i].contiguous(), into.memory(),
                                           same_counts(ranks.size(), count_of(outputs[i])));
                   into.finish();
                 }
               });
}

C10dBackend::Work C10dBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                             std::vector<std::int64_t>& output_splits,
                                             std::vector<std::int64_t>& input_splits,
                                             const c10d::AllToAllOptions& options) {
  check_host(output);
  check_host(input);
  const auto counts = [&](const at::Tensor& tensor, const std::vector<std::int64_t>& splits) {
    const Moved moved(tensor);
    const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    if (splits.empty() && rows % getSize() == 0)
      return same_counts(getSize(), moved.count(tensor) / static_cast<std::size_t>(getSize()));
    std::int64_t sum = 0;
    for (const std::int64_t split : splits) sum += split;
    if (splits.size() != static_cast<std::size_t>(getSize()) || sum != rows ||
        std::ranges::any_of(splits, [](auto n) { return n < 0; })) {
      throw InputError(
          fmt::format("all_to_all_single: splits ({}) of a tensor of {}: expected {} numbers, {} "
                      "in all, or none where they divide evenly",
                      fmt::join(splits, ", "), shape_of(tensor), getSize(), rows));
    }
    Counts result;
    for (const std::int64_t split : splits)
      result.push_back(rows == 0 ? 0
                                 : static_cast<std::size_t>(split) *
                                       (moved.count(tensor) / static_cast<std::size_t>(rows)));
    return result;
  };
  const Counts sent = counts(input, input_splits);
  const Counts received = counts(output, output_splits);
  return start(OpType::ALLTOALL_BASE, {output}, in_background(options), [=](Communicator& ranks) {
    const at::Tensor from = input.contiguous();
    const Written into(output);
    ranks.alltoall(from.data_ptr(), sent, into.memory().data_ptr(), received, Moved(from).type);
    into.finish();
  });
}

C10dBackend::Work C10dBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllToAllOptions& options) {
  check_ranks(outputs, getSize(), "all_to_all");
  check_ranks(inputs, getSize(), "all_to_all");
  return start(OpType::ALLTOALL, outputs, in_background(options), [=](Communicator& ranks) {
    const at::Tensor from = flattened(inputs);
    const Moved moved(from);
    const at::Tensor into = flat_like(outputs);
    ranks.alltoall(from.data_ptr(), counts_of(inputs, moved), into.data_ptr(),
                   counts_of(outputs, moved), moved.type);
    share_out(into, outputs);
  });
}

}  // namespace sullae::python
