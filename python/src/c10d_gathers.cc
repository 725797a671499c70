// Gathers, scatters and exchanges of torch.distributed.
#include <algorithm>

#include "c10d_backend.h"
#include "c10d_reduction.h"

namespace sullae::python {

using c10d::OpType;

C10dBackend::Work C10dBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs);
  const Tensors& results = list_of(outputs, "all_gather");
  std::vector<Tensors> by_rank;
  for (const at::Tensor& result : results) by_rank.push_back({result});
  Tensors given{input};
  return allgather_coalesced(by_rank, given, options);
}

// `outputs`: a list a rank, of as many tensors as `inputs`.
C10dBackend::Work C10dBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& options) {
  constexpr auto kWhat = "all_gather";
  if (outputs.size() != static_cast<std::size_t>(getSize()))
    throw InputError(fmt::format("{}: {} tensors for {} ranks: expected one a rank", kWhat,
                                 outputs.size(), getSize()));
  Tensors results;
  std::vector<Tensors> by_input(inputs.size());
  for (const Tensors& of_rank : outputs) {
    if (of_rank.size() != inputs.size())
      throw InputError(fmt::format("{}: {} results of a rank for {} tensors", kWhat, of_rank.size(),
                                   inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_written(of_rank[i]);
      by_input[i].push_back(of_rank[i]);
      results.push_back(of_rank[i]);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_host(inputs[i]);
    check_types(by_input[i], inputs[i], kWhat);
    check_alike(inputs[i], by_input[i][static_cast<std::size_t>(getRank())], kWhat);
  }
  return start(OpType::ALLGATHER, results, way_of(options), [=](Communicator& ranks) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor input = inputs[i].contiguous();
      const Moved moved(input);
      const at::Tensor all = flat_like(by_input[i]);
      ranks.allgather(input.data_ptr(), all.data_ptr(), counts_of(by_input[i], moved), moved.type);
      share_out(all, by_input[i]);
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
    check_written(outputs.at(i));
    check_types({outputs[i]}, inputs[i], "all_gather_into_tensor");
    if (outputs[i].numel() != inputs[i].numel() * getSize()) {
      throw InputError(fmt::format(
          "all_gather_into_tensor: a result of {} for tensors of {} of {} ranks: expected {} "
          "elements",
          shape_of(outputs[i]), shape_of(inputs[i]), getSize(), inputs[i].numel() * getSize()));
    }
  }
  return start(OpType::_ALLGATHER_BASE, outputs, way_of(options), [=](Communicator& ranks) {
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
  const int root = root_of(options.rootRank, "gather");
  const Tensors results = getRank() == root ? list_of(outputs, "gather") : Tensors{};
  if (getRank() == root) {
    check_ranks(results, getSize(), "gather");
    check_types(results, input, "gather");
    check_alike(input, results[static_cast<std::size_t>(root)], "gather");
  }
  for (const at::Tensor& result : results) check_written(result);
  return start(OpType::GATHER, results, way_of(options), [=](Communicator& ranks) {
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
  const int root = root_of(options.rootRank, "scatter");
  const Tensors given = getRank() == root ? list_of(inputs, "scatter") : Tensors{};
  check_written(output);
  if (getRank() == root) {
    check_ranks(given, getSize(), "scatter");
    check_types(given, output, "scatter");
    check_alike(given[static_cast<std::size_t>(root)], output, "scatter");
  }
  return start(OpType::SCATTER, outputs, way_of(options), [=](Communicator& ranks) {
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
  const Tensors parts = list_of(inputs, "reduce_scatter");
  const Reduction reduction(options.reduceOp);
  reduction.check(output);
  check_written(output);
  check_ranks(parts, getSize(), "reduce_scatter");
  check_types(parts, output, "reduce_scatter");
  check_alike(parts[static_cast<std::size_t>(getRank())], output, "reduce_scatter");
  return start(OpType::REDUCE_SCATTER, outputs, way_of(options), [=](Communicator& ranks) {
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
  const Reduction reduction(options.reduceOp);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reduction.check(inputs[i]);
    check_written(outputs.at(i));
    check_types({outputs[i]}, inputs[i], "reduce_scatter_tensor");
    if (inputs[i].numel() != outputs[i].numel() * getSize()) {
      throw InputError(fmt::format(
          "reduce_scatter_tensor: a result of {} of tensors of {} on {} ranks: expected {} "
          "elements",
          shape_of(outputs[i]), shape_of(inputs[i]), getSize(), inputs[i].numel() / getSize()));
    }
  }
  return start(OpType::_REDUCE_SCATTER_BASE, outputs, way_of(options), [=](Communicator& ranks) {
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
  check_written(output);
  check_host(input);
  check_types({output}, input, "all_to_all_single");
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
  return start(OpType::ALLTOALL_BASE, {output}, way_of(options), [=](Communicator& ranks) {
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
  check_types(inputs, outputs[0], "all_to_all");
  check_types(outputs, outputs[0], "all_to_all");
  for (const at::Tensor& output : outputs) check_written(output);
  const auto own = static_cast<std::size_t>(getRank());
  check_alike(inputs[own], outputs[own], "all_to_all");
  return start(OpType::ALLTOALL, outputs, way_of(options), [=](Communicator& ranks) {
    const at::Tensor from = flattened(inputs);
    const Moved moved(from);
    const at::Tensor into = flat_like(outputs);
    ranks.alltoall(from.data_ptr(), counts_of(inputs, moved), into.data_ptr(),
                   counts_of(outputs, moved), moved.type);
    share_out(into, outputs);
  });
}

}  // namespace sullae::python
