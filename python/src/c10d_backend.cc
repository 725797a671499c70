#include "c10d_backend.h"

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "c10d_work.h"
#include "sullae/adapter.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_type.h"

namespace sullae::python {
namespace {

using Tensors = std::vector<at::Tensor>;
using Counts = std::vector<std::size_t>;
using c10d::OpType;

// torch before 2.7 does not say whether the caller waits.
template <class Options>
bool in_background(const Options& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

void check_host(const at::Tensor& tensor) {
  check_defined(tensor, "torch.distributed");
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided) {
    throw InputError(
        fmt::format("torch.distributed with sullae: a tensor of {} on {}: expected a dense one on "
                    "the CPU; for others name "
                    "another backend as well, as in init_process_group(\"cpu:sullae,cuda:nccl\")",
                    shape_of(tensor), tensor.device().str()));
  }
}

const at::Tensor& only(const Tensors& tensors) {
  if (tensors.size() != 1)
    throw InputError(fmt::format("torch.distributed: {} tensors: expected one", tensors.size()));
  check_host(tensors[0]);
  return tensors[0];
}

// What is only moved is bytes where it is of a type that cannot be reduced.
struct Moved {
  explicit Moved(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
      case at::kFloat:
      case at::kDouble:
      case at::kHalf:
      case at::kBFloat16:
      case at::kChar:
      case at::kShort:
      case at::kInt:
      case at::kLong:
      case at::kByte:
      case at::kBool:
        type = data_type(tensor.scalar_type(), "the tensor");
        scale = 1;
        break;
      default:
        scale = tensor.element_size();
    }
  }
  std::size_t count(const at::Tensor& tensor) const { return count_of(tensor) * scale; }
  DataType type = DataType::uint8;
  std::size_t scale = 1;
};

// The tensor's memory, or a copy that goes back when this ends.
class Written {
 public:
  explicit Written(at::Tensor target) : target_(std::move(target)), memory_(target_.contiguous()) {}
  const at::Tensor& memory() const { return memory_; }
  void finish() const {
    if (memory_.data_ptr() != target_.data_ptr()) target_.copy_(memory_);
  }

 private:
  at::Tensor target_;
  at::Tensor memory_;
};

// [a row a rank] → the tensors of the ranks.
void share_out(const at::Tensor& flat, const Tensors& outputs) {
  std::int64_t at = 0;
  for (const at::Tensor& output : outputs) {
    output.copy_(flat.narrow(0, at, output.numel()).view(output.sizes()));
    at += output.numel();
  }
}

at::Tensor flat_like(const Tensors& tensors) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  return at::empty({elements}, tensors.at(0).options());
}

at::Tensor flattened(const Tensors& tensors) {
  Tensors flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
  return at::cat(flat);
}

Counts counts_of(const Tensors& tensors, const Moved& moved) {
  Counts counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(moved.count(tensor));
  return counts;
}

void check_ranks(const Tensors& tensors, int size, const char* what) {
  for (const at::Tensor& tensor : tensors) check_host(tensor);
  if (tensors.size() != static_cast<std::size_t>(size))
    throw InputError(fmt::format("{}: {} tensors for {} ranks: expected one a rank", what,
                                 tensors.size(), size));
}

at::Tensor bitwise(c10d::ReduceOp::RedOpType op, const at::Tensor& a, const at::Tensor& b) {
  if (op == c10d::ReduceOp::BAND) return at::bitwise_and(a, b);
  return op == c10d::ReduceOp::BOR ? at::bitwise_or(a, b) : at::bitwise_xor(a, b);
}

struct Reduction {
  explicit Reduction(const c10d::ReduceOp& given) : kind(given.op_) {
    switch (kind) {
      case c10d::ReduceOp::AVG:
        op = ReduceOp::average;
        break;
      case c10d::ReduceOp::PRODUCT:
        op = ReduceOp::product;
        break;
      case c10d::ReduceOp::MIN:
        op = ReduceOp::min;
        break;
      case c10d::ReduceOp::MAX:
        op = ReduceOp::max;
        break;
      default:
        break;
    }
    if (kind == c10d::ReduceOp::PREMUL_SUM) {
      const auto* supplement =
          static_cast<const c10d::NCCLPreMulSumSupplement*>(given.supplement_.get());
      factor = supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>()
                                                   : supplement->double_factor;
    }
  }
  bool is_bitwise() const {
    return kind == c10d::ReduceOp::BAND || kind == c10d::ReduceOp::BOR ||
           kind == c10d::ReduceOp::BXOR;
  }

  // `tensor` (contiguous) becomes the reduction of every rank's.
  void allreduce(Communicator& ranks, at::Tensor tensor) const {
    if (tensor.is_complex() && (kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG))
      tensor = at::view_as_real(tensor);
    if (is_bitwise()) {
      const Moved moved(tensor);
      at::Tensor all = at::empty({ranks.size(), tensor.numel()}, tensor.options());
      ranks.allgather(tensor.data_ptr(), all.data_ptr(),
                      Counts(static_cast<std::size_t>(ranks.size()), moved.count(tensor)),
                      moved.type);
      at::Tensor result = all[0];
      for (std::int64_t r = 1; r < ranks.size(); ++r) result = bitwise(kind, result, all[r]);
      tensor.copy_(result.view(tensor.sizes()));
      return;
    }
    if (factor != 1.0) tensor.mul_(factor);
    ranks.allreduce(tensor.data_ptr(), tensor.data_ptr(), count_of(tensor),
                    data_type(tensor.scalar_type(), "torch.distributed: the tensor"), op);
  }

  // Of `input` to this rank's `output`, both contiguous.
  void reducescatter(Communicator& ranks, at::Tensor input, const at::Tensor& output,
                     const Counts& counts) const {
    const DataType type = data_type(input.scalar_type(), "torch.distributed: the tensor");
    if (is_bitwise()) {
      input = input.clone();
      allreduce(ranks, input);
      std::size_t before = 0;
      for (int r = 0; r < ranks.rank(); ++r) before += counts[static_cast<std::size_t>(r)];
      output.copy_(input.view({-1})
                       .narrow(0, static_cast<std::int64_t>(before), output.numel())
                       .view(output.sizes()));
      return;
    }
    if (factor != 1.0) input = input * factor;
    ranks.reducescatter(input.data_ptr(), output.data_ptr(), counts, type, op);
  }

  c10d::ReduceOp::RedOpType kind;
  ReduceOp op = ReduceOp::sum;
  double factor = 1.0;
};

void check_reducible(const at::Tensor& tensor) {
  check_host(tensor);
  if (!tensor.is_complex()) data_type(tensor.scalar_type(), "torch.distributed: the tensor");
}

Counts same_counts(int size, std::size_t count) {
  return Counts(static_cast<std::size_t>(size), count);
}

}  // namespace

C10dBackend::C10dBackend(World world, std::shared_ptr<void> kept)
    : c10d::Backend(world.rank(), world.size()), world_(std::move(world)), kept_(std::move(kept)) {}

C10dBackend::~C10dBackend() { shutdown(); }

// What is under way may call back into Python, and so need the interpreter's lock, which this thread may have.
void C10dBackend::shutdown() {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release release;
    world_.leave();
  } else {
    world_.leave();
  }
}
void C10dBackend::abort() { shutdown(); }

C10dBackend::Work C10dBackend::start(OpType type, Tensors results, bool in_background,
                                     Collectives collectives) {
  ++sequence_;
  auto work = c10::make_intrusive<C10dWork>(getRank(), type, std::move(results));
  const auto run = [collectives = std::move(collectives)](Communicator& ranks) {
    const at::NoGradGuard guard;
    collectives(ranks);
  };
  if (in_background) {
    work->follow(AdapterView(world_).submit(run, {.name = c10d::opTypeToString(type)}));
  } else {
    AdapterView(world_).run(run);
    work->follow({});
  }
  return work;
}

C10dBackend::Work C10dBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors);
  return start(OpType::BROADCAST, tensors, in_background(options),
               [=, root = static_cast<int>(options.rootRank)](Communicator& ranks) {
                 const Written written(tensor);
                 const Moved moved(tensor);
                 ranks.broadcast(written.memory().data_ptr(), moved.count(tensor), moved.type,
                                 root);
                 written.finish();
               });
}

C10dBackend::Work C10dBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  for (const at::Tensor& tensor : tensors) check_reducible(tensor);
  const Reduction reduction(options.reduceOp);
  return start(OpType::ALLREDUCE, tensors, in_background(options), [=](Communicator& ranks) {
    for (const at::Tensor& tensor : tensors) {
      const Written written(tensor);
      reduction.allreduce(ranks, written.memory());
      written.finish();
    }
  });
}

C10dBackend::Work C10dBackend::allreduce_coalesced(Tensors& tensors,
                                                   const c10d::AllreduceCoalescedOptions& options) {
  return allreduce(tensors, options);
}

C10dBackend::Work C10dBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = only(tensors);
  check_reducible(tensor);
  const Reduction reduction(options.reduceOp);
  return start(OpType::REDUCE, tensors, in_background(options),
               [=, root = static_cast<int>(options.rootRank)](Communicator& ranks) {
                 const Written written(tensor);
                 if (reduction.is_bitwise() || reduction.factor != 1.0 || tensor.is_complex()) {
                   const at::Tensor all = written.memory().clone();
                   reduction.allreduce(ranks, all);
                   if (ranks.rank() == root) tensor.copy_(all);
                   return;
                 }
                 ranks.reduce(
                     written.memory().data_ptr(), written.memory().data_ptr(), count_of(tensor),
                     data_type(tensor.scalar_type(), "reduce: the tensor"), reduction.op, root);
                 if (ranks.rank() == root) written.finish();
               });
}

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

C10dBackend::Work C10dBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor values = only(tensors).contiguous();
  const Moved moved(values);
  auto work = c10::make_intrusive<C10dWork>(getRank(), OpType::SEND, tensors);
  const Handle handle =
      world_.send_async(values.data_ptr(), moved.count(values), moved.type, to, tag);
  handle.then([values](const std::exception_ptr&) {});  // keeps it until then
  work->follow(handle);
  return work;
}

C10dBackend::Work C10dBackend::receive(const at::Tensor& tensor, int from, int tag, OpType type) {
  if (!tensor.is_contiguous())
    throw InputError(fmt::format(
        "recv: a tensor of {} that is not contiguous: expected one that is", shape_of(tensor)));
  const Moved moved(tensor);
  auto work = c10::make_intrusive<C10dWork>(getRank(), type, Tensors{tensor});
  work->follow(world_.receive_async(tensor.data_ptr(), moved.count(tensor), moved.type, from, tag));
  return work;
}

C10dBackend::Work C10dBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(only(tensors), from, tag, OpType::RECV);
}

C10dBackend::Work C10dBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(only(tensors), kAnySource, tag, OpType::RECVANYSOURCE);
}

C10dBackend::Work C10dBackend::barrier(const c10d::BarrierOptions& options) {
  return start(OpType::BARRIER, {}, in_background(options),
               [](Communicator& ranks) { ranks.barrier(); });
}

// Whoever waits for a rank says its name anyway.
void C10dBackend::monitoredBarrier(const c10d::BarrierOptions&, bool) { world_.barrier(); }

}  // namespace sullae::python
