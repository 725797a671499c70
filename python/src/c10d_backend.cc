#include "c10d_backend.h"

#include <pybind11/pybind11.h>

#include <utility>

#include "c10d_reduction.h"
#include "c10d_work.h"
#include "sullae/adapter.h"

namespace sullae::python {

using c10d::OpType;

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
