#include "c10d_backend.h"

#include <c10/core/InferenceMode.h>
#include <pybind11/pybind11.h>

#include <ranges>
#include <utility>

#include "base/log.h"
#include "c10d_reduction.h"
#include "c10d_sparse.h"
#include "c10d_work.h"
#include "sullae/adapter.h"

namespace sullae::python {
namespace {

// Those of this process that there are. It outlives all of them.
struct Groups {
  std::mutex mutex;  // guards the next
  std::vector<C10dBackend*> all;
};
Groups& groups() {
  static auto* const groups = new Groups;
  return *groups;
}

}  // namespace

using c10d::OpType;

C10dBackend::C10dBackend(World world, std::shared_ptr<void> kept)
    : c10d::Backend(world.rank(), world.size()), world_(std::move(world)), kept_(std::move(kept)) {
  const std::lock_guard lock(groups().mutex);
  groups().all.push_back(this);
}

C10dBackend::~C10dBackend() {
  {
    const std::lock_guard lock(groups().mutex);
    std::erase(groups().all, this);
  }
  shutdown();
}

void C10dBackend::end_all(std::chrono::milliseconds limit) {
  const Deadline deadline(limit, "the limit for operations at the end of a program");
  {
    const std::lock_guard lock(groups().mutex);
    for (C10dBackend* const group : groups().all | std::views::reverse) group->end_by(deadline);
  }
  CallbackThreads::end_all(deadline.remaining());
}

void C10dBackend::end_by(const Deadline& deadline) {
  if (!process_.is_here() || world_.has_left()) return;
  Handle last;
  {
    const std::lock_guard lock(last_mutex_);
    last = last_;
  }
  bool is_done = true;
  try {
    is_done = last.wait_for(deadline.remaining());
  } catch (const std::exception&) {
    // Whoever waits for it is told.
  }
  try {
    if (!is_done) AdapterView(world_).fail("this rank's program has ended");
    world_.leave();
  } catch (const Error& error) {
    log::warning("torch.distributed: {}", error.what());
  }
}

// What is under way may call back into Python, and so need the interpreter's lock, which this
// thread may have.
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

C10dBackend::Work C10dBackend::start(OpType type, Tensors results, const Way& way,
                                     Collectives collectives) {
  ++sequence_;
  // The Work has them, too, and is the program's: to let go of a tensor of Python's takes the
  // interpreter's lock.
  const auto kept = std::make_shared<Collectives>(std::move(collectives));
  // The caller's, whose tensors these are, and not that of the thread that happens to run it.
  auto run = [kept, inference = c10::InferenceMode::is_enabled()](Communicator& ranks) {
    const c10::InferenceMode mode(inference);
    const at::NoGradGuard guard;
    (*kept)(ranks);
  };
  const AdapterView world(world_);
  const PlannedOptions options{.name = c10d::opTypeToString(type)};
  if (!way.in_background && way.limit == kNoTimeout) {
    world.run(std::move(run), options);
    return work_of(type, std::move(results), {}, {});
  }
  const Handle handle = world.submit(std::move(run), options);
  {
    const std::lock_guard lock(last_mutex_);
    last_ = handle;
  }
  auto work = work_of(type, std::move(results), handle, kept, way.limit);
  if (!way.in_background) work->wait();
  return work;
}

C10dBackend::Work C10dBackend::work_of(OpType type, Tensors results, Handle handle,
                                       std::shared_ptr<void> kept,
                                       std::chrono::milliseconds limit) const {
  return c10::make_intrusive<C10dWork>(getRank(), type, std::move(results), std::move(handle),
                                       std::move(kept), limit, threads_);
}

int C10dBackend::root_of(std::int64_t root, const char* what) const {
  if (root >= 0 && root < getSize()) return static_cast<int>(root);
  throw InputError(
      fmt::format("{}: root {}: expected a rank of the group, 0 to {}", what, root, getSize() - 1));
}

C10dBackend::Work C10dBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors);
  const int root = root_of(options.rootRank, "broadcast");
  check_written(tensor);
  return start(OpType::BROADCAST, tensors, way_of(options), [=](Communicator& ranks) {
    const Written written(tensor);
    const Moved moved(tensor);
    ranks.broadcast(written.memory().data_ptr(), moved.count(tensor), moved.type, root);
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
  return start(OpType::ALLREDUCE, tensors, way_of(options), [=](Communicator& ranks) {
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
  const int root = root_of(options.rootRank, "reduce");
  const Reduction reduction(options.reduceOp);
  reduction.check(tensor);
  check_written(tensor);
  return start(OpType::REDUCE, tensors, way_of(options), [=](Communicator& ranks) {
    const Written written(tensor);
    if (reduction.is_bitwise() || reduction.factor != 1.0 || tensor.is_complex()) {
      const at::Tensor all = written.memory().clone();
      reduction.allreduce(ranks, all);
      if (ranks.rank() == root) tensor.copy_(all);
      return;
    }
    ranks.reduce(written.memory().data_ptr(), written.memory().data_ptr(), count_of(tensor),
                 data_type(tensor.scalar_type(), "reduce: the tensor"), reduction.op, root);
    if (ranks.rank() == root) written.finish();
  });
}

C10dBackend::Work C10dBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor values = only(tensors).contiguous();
  const Moved moved(values);
  const Handle handle =
      world_.send_async(values.data_ptr(), moved.count(values), moved.type, to, tag);
  return work_of(OpType::SEND, tensors, handle, keep(values, handle));
}

C10dBackend::Work C10dBackend::receive(const at::Tensor& tensor, int from, int tag, OpType type) {
  if (!tensor.is_contiguous())
    throw InputError(fmt::format(
        "recv: a tensor of {} that is not contiguous: expected one that is", shape_of(tensor)));
  const Moved moved(tensor);
  const Handle handle =
      world_.receive_async(tensor.data_ptr(), moved.count(tensor), moved.type, from, tag);
  return work_of(type, {tensor}, handle, keep(tensor, handle));
}

// Until the message has gone or come. Where the program has let go of the Work by then, the last to
// do so is a thread that may wait.
std::shared_ptr<void> C10dBackend::keep(const at::Tensor& tensor, const Handle& handle) const {
  auto kept = std::make_shared<at::Tensor>(tensor);
  handle.then([kept, threads = threads_](const std::exception_ptr&) mutable {
    if (kept.use_count() == 1) threads->post([last = std::move(kept)] {});
  });
  return kept;
}

C10dBackend::Work C10dBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(only(tensors), from, tag, OpType::RECV);
}

C10dBackend::Work C10dBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(only(tensors), kAnySource, tag, OpType::RECVANYSOURCE);
}

C10dBackend::Work C10dBackend::barrier(const c10d::BarrierOptions& options) {
  return start(OpType::BARRIER, {}, way_of(options), [](Communicator& ranks) { ranks.barrier(); });
}

// Whoever waits for a rank says its name anyway.
void C10dBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool) {
  Way way = way_of(options);
  way.in_background = false;
  start(OpType::BARRIER, {}, way, [](Communicator& ranks) { ranks.barrier(); });
}

}  // namespace sullae::python
