#include "c10d_backend.h"

#include <c10/core/InferenceMode.h>
#include <pybind11/pybind11.h>

#include <utility>

#include "c10d_reduction.h"
#include "c10d_sparse.h"
#include "c10d_work.h"
#include "sullae/adapter.h"

namespace sullae::python {

using c10d::OpType;

C10dBackend::C10dBackend(World world, std::shared_ptr<void> kept)
    : c10d::Backend(world.rank(), world.size()), world_(std::move(world)), kept_(std::move(kept)) {}

C10dBackend::~C10dBackend() { shutdown(); }

// What is under way may call back into Python, and so need the interpreter's lock, which this thread may have.
void C10dBackend::shutdown() {
  const auto end = [this] {
    world_.leave();
    threads_->stop();
  };
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const pybind11::gil_scoped_release release;
    end();
  } else {
    end();
  }
}

void C10dBackend::abort() {
  if (!world_.has_left()) AdapterView(world_).fail("the process group was aborted");
  shutdown();
}

C10dBackend::Work C10dBackend::start(OpType type, Tensors results, bool in_background,
                                     Collectives collectives) {
  ++sequence_;
  // The caller's, whose tensors these are, and not that of the thread that happens to run it.
  auto run = [collectives = std::move(collectives),
              inference = c10::InferenceMode::is_enabled()](Communicator& ranks) {
    const c10::InferenceMode mode(inference);
    const at::NoGradGuard guard;
    collectives(ranks);
  };
  const AdapterView world(world_);
  const PlannedOptions options{.name = c10d::opTypeToString(type)};
  if (in_background)
    return work_of(type, std::move(results), world.submit(std::move(run), options));
  world.run(std::move(run), options);
  return work_of(type, std::move(results), {});
}

C10dBackend::Work C10dBackend::work_of(OpType type, Tensors results, Handle handle) const {
  return c10::make_intrusive<C10dWork>(getRank(), type, std::move(results), std::move(handle),
                                       threads_);
}

C10dBackend::Work C10dBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors);
  check_written(tensor);
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
  const Reduction reduction(options.reduceOp);
  for (const at::Tensor& tensor : tensors) {
    if (is_sparse(tensor)) {
      check_sparse(tensor, reduction);
      continue;
    }
    reduction.check(tensor);
    check_written(tensor);
  }
  return start(OpType::ALLREDUCE, tensors, in_background(options), [=](Communicator& ranks) {
    for (const at::Tensor& tensor : tensors) {
      if (is_sparse(tensor)) {
        reduce_sparse(ranks, tensor, reduction);
        continue;
      }
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
  const Reduction reduction(options.reduceOp);
  reduction.check(tensor);
  check_written(tensor);
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

C10dBackend::Work C10dBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor values = only(tensors).contiguous();
  const Moved moved(values);
  const Handle handle =
      world_.send_async(values.data_ptr(), moved.count(values), moved.type, to, tag);
  handle.then([values](const std::exception_ptr&) {});  // keeps it until then
  return work_of(OpType::SEND, tensors, handle);
}

C10dBackend::Work C10dBackend::receive(const at::Tensor& tensor, int from, int tag, OpType type) {
  if (!tensor.is_contiguous())
    throw InputError(fmt::format(
        "recv: a tensor of {} that is not contiguous: expected one that is", shape_of(tensor)));
  const Moved moved(tensor);
  const Handle handle =
      world_.receive_async(tensor.data_ptr(), moved.count(tensor), moved.type, from, tag);
  handle.then([tensor](const std::exception_ptr&) {});
  return work_of(type, {tensor}, handle);
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
void C10dBackend::monitoredBarrier(const c10d::BarrierOptions&, bool) {
  start(OpType::BARRIER, {}, false, [](Communicator& ranks) { ranks.barrier(); });
}

}  // namespace sullae::python
