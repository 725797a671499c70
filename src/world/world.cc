#include <fmt/format.h>

#include <numeric>

#include "base/interruption.h"
#include "world/world_impl.h"

namespace sullae {
namespace {

// What 64-bit machines' addresses hold, less the system's half.
constexpr std::size_t kMostShared = std::size_t{1} << 46;

std::vector<std::size_t> same_for_all(std::size_t count, int size) {
  return std::vector<std::size_t>(static_cast<std::size_t>(size), count);
}

std::size_t sum(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

engine::Submission submission_of(const void* in, void* out, std::size_t count) {
  return {.tensors = {{.in = in, .out = out, .count = count}}};
}

engine::Submission submission_of(const void* in, void* out, std::span<const std::size_t> counts) {
  return {.request = {.sizes = {counts.begin(), counts.end()}},
          .tensors = {{.in = in, .out = out, .count = sum(counts)}}};
}

// Memory of `count` elements, which may be null where there are none.
void check_memory(const void* memory, std::size_t count) {
  if (memory == nullptr && count > 0)
    throw InputError(fmt::format("a null pointer for {} elements", count));
}

}  // namespace

bool Handle::done() const { return !completion_ || completion_->done(); }
void Handle::wait() const {
  if (completion_) completion_->wait();
}
bool Handle::wait_for(std::chrono::milliseconds limit) const {
  return !completion_ || completion_->wait_for(limit);
}
void Handle::then(std::function<void(std::exception_ptr)> callback) const {
  if (completion_) {
    completion_->then(std::move(callback));
  } else {
    callback(nullptr);
  }
}

int Handle::source() const {
  if (!completion_ || !completion_->done() || completion_->source() < 0)
    throw Error("Handle::source: neither a receive nor a join that has completed");
  return completion_->source();
}

Handle World::handle_of(std::shared_ptr<Completion> completion) {
  return Handle(std::move(completion));
}

World World::create(const WorldOptions& options) { return World(Impl::join(options)); }

World::World(std::unique_ptr<Impl> impl) : impl_(impl.release(), Impl::end) {}

void World::leave() const { impl_->leave(); }
bool World::has_left() const { return impl_->has_left(); }

int World::rank() const { return impl_->topology().rank; }
int World::size() const { return impl_->topology().size; }
int World::local_rank() const { return impl_->topology().local_rank(); }
int World::local_size() const { return impl_->topology().local_size(); }
int World::cross_rank() const { return impl_->topology().cross_rank(); }
int World::cross_size() const { return impl_->topology().cross_size(); }
bool World::is_homogeneous() const { return impl_->topology().is_homogeneous(); }
std::string World::backend() const { return impl_->backend(); }

void World::allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                      std::string_view shape) const {
  check_memory(in, count);
  check_memory(out, count);
  impl_->run(Operation::allreduce, count * element_size(type), [&](Communicator& c) {
    impl_->set_shape(shape);
    c.allreduce(in, out, count, type, op);
  });
}
void World::reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                   int root) const {
  impl_->check_root(root);
  check_memory(in, count);
  check_memory(out, rank() == root ? count : 0);
  impl_->run(Operation::reduce, count * element_size(type),
             [&](Communicator& c) { c.reduce(in, out, count, type, op, root); });
}
void World::reducescatter(const void* in, void* out, std::size_t count, DataType type,
                          ReduceOp op) const {
  reducescatterv(in, out, same_for_all(count, size()), type, op);
}
void World::reducescatterv(const void* in, void* out, std::span<const std::size_t> counts,
                           DataType type, ReduceOp op, std::string_view shape) const {
  impl_->check_counts(counts);
  check_memory(in, sum(counts));
  check_memory(out, counts[static_cast<std::size_t>(rank())]);
  impl_->run(Operation::reducescatter, sum(counts) * element_size(type), [&](Communicator& c) {
    impl_->set_shape(shape);
    c.reducescatter(in, out, counts, type, op);
  });
}
void World::allgather(const void* in, void* out, std::size_t count, DataType type) const {
  allgatherv(in, out, same_for_all(count, size()), type);
}
void World::allgatherv(const void* in, void* out, std::span<const std::size_t> counts,
                       DataType type, std::string_view shape) const {
  impl_->check_counts(counts);
  check_memory(in, counts[static_cast<std::size_t>(rank())]);
  check_memory(out, sum(counts));
  impl_->run(Operation::allgather, sum(counts) * element_size(type), [&](Communicator& c) {
    impl_->set_shape(shape);
    c.allgather(in, out, counts, type);
  });
}
void World::broadcast(void* data, std::size_t count, DataType type, int root,
                      std::string_view shape) const {
  impl_->check_root(root);
  check_memory(data, count);
  impl_->run(Operation::broadcast, count * element_size(type), [&](Communicator& c) {
    impl_->set_shape(shape);
    c.broadcast(data, count, type, root);
  });
}
void World::alltoall(const void* in, void* out, std::size_t count, DataType type) const {
  const auto counts = same_for_all(count, size());
  alltoallv(in, counts, out, counts, type);
}
void World::alltoallv(const void* in, std::span<const std::size_t> send_counts, void* out,
                      std::span<const std::size_t> receive_counts, DataType type,
                      std::string_view shape) const {
  impl_->check_counts(send_counts);
  impl_->check_counts(receive_counts);
  check_memory(in, sum(send_counts));
  check_memory(out, sum(receive_counts));
  impl_->run(Operation::alltoall, sum(send_counts) * element_size(type), [&](Communicator& c) {
    impl_->set_shape(shape);
    c.alltoall(in, send_counts, out, receive_counts, type);
  });
}
void World::barrier() const {
  impl_->run(Operation::barrier, 0, [](Communicator& c) { c.barrier(); });
}

void World::send(const void* data, std::size_t count, DataType type, int to, int tag) const {
  impl_->run_message("SEND", count * element_size(type),
                     [&](messages::Group& group) { group.send(data, count, type, to, tag); });
}
int World::receive(void* data, std::size_t count, DataType type, int from, int tag) const {
  return impl_->run_message("RECEIVE", count * element_size(type), [&](messages::Group& group) {
    return group.receive(data, count, type, from, tag);
  });
}
Handle World::send_async(const void* data, std::size_t count, DataType type, int to,
                         int tag) const {
  return handle_of(impl_->start_message([&](messages::Group& group, auto finished) {
    group.send_async(data, count, type, to, tag, std::move(finished));
  }));
}
Handle World::receive_async(void* data, std::size_t count, DataType type, int from, int tag) const {
  return handle_of(impl_->start_message([&](messages::Group& group, auto finished) {
    group.receive_async(data, count, type, from, tag, std::move(finished));
  }));
}

Handle World::allreduce_async(const void* in, void* out, std::size_t count, DataType type,
                              ReduceOp op, const AsyncOptions& options) const {
  check_memory(in, count);
  check_memory(out, count);
  return handle_of(
      impl_->submit({.operation = Operation::allreduce, .type = type, .op = op, .count = count},
                    options, submission_of(in, out, count)));
}
Handle World::grouped_allreduce_async(std::span<const TensorBuffers> tensors, DataType type,
                                      ReduceOp op, const AsyncOptions& options) const {
  engine::Submission submission{.tensors = {tensors.begin(), tensors.end()}};
  std::size_t count = 0;
  for (const TensorBuffers& tensor : tensors) {
    check_memory(tensor.in, tensor.count);
    check_memory(tensor.out, tensor.count);
    submission.request.sizes.push_back(tensor.count);
    count += tensor.count;
  }
  return handle_of(
      impl_->submit({.operation = Operation::allreduce, .type = type, .op = op, .count = count},
                    options, std::move(submission)));
}
Handle World::reduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                           int root, const AsyncOptions& options) const {
  impl_->check_root(root);
  check_memory(in, count);
  check_memory(out, rank() == root ? count : 0);
  return handle_of(impl_->submit(
      {.operation = Operation::reduce, .type = type, .op = op, .root = root, .count = count},
      options, submission_of(in, out, count)));
}
Handle World::reducescatterv_async(const void* in, void* out, std::span<const std::size_t> counts,
                                   DataType type, ReduceOp op, const AsyncOptions& options) const {
  impl_->check_counts(counts);
  check_memory(in, sum(counts));
  check_memory(out, counts[static_cast<std::size_t>(rank())]);
  return handle_of(impl_->submit(
      {.operation = Operation::reducescatter, .type = type, .op = op, .count = sum(counts)},
      options, submission_of(in, out, counts)));
}
Handle World::allgatherv_async(const void* in, void* out, std::span<const std::size_t> counts,
                               DataType type, const AsyncOptions& options) const {
  impl_->check_counts(counts);
  check_memory(in, counts[static_cast<std::size_t>(rank())]);
  check_memory(out, sum(counts));
  return handle_of(
      impl_->submit({.operation = Operation::allgather, .type = type, .count = sum(counts)},
                    options, submission_of(in, out, counts)));
}
Handle World::broadcast_async(void* data, std::size_t count, DataType type, int root,
                              const AsyncOptions& options) const {
  impl_->check_root(root);
  check_memory(data, count);
  return handle_of(
      impl_->submit({.operation = Operation::broadcast, .type = type, .root = root, .count = count},
                    options, submission_of(data, data, count)));
}
Handle World::alltoallv_async(const void* in, std::span<const std::size_t> send_counts, void* out,
                              std::span<const std::size_t> receive_counts, DataType type,
                              const AsyncOptions& options) const {
  impl_->check_counts(send_counts);
  impl_->check_counts(receive_counts);
  check_memory(in, sum(send_counts));
  check_memory(out, sum(receive_counts));
  const auto own = static_cast<std::size_t>(rank());
  if (send_counts[own] != receive_counts[own]) {
    throw InputError(
        fmt::format("alltoall: rank {} would send {} elements to itself and receive {}", own,
                    send_counts[own], receive_counts[own]));
  }
  engine::Submission submission = submission_of(in, out, sum(receive_counts));
  submission.counts.assign(send_counts.begin(), send_counts.end());
  submission.receive_counts.assign(receive_counts.begin(), receive_counts.end());
  return handle_of(impl_->submit({.operation = Operation::alltoall, .type = type}, options,
                                 std::move(submission)));
}
Handle World::barrier_async(const AsyncOptions& options) const {
  return handle_of(impl_->submit({.operation = Operation::barrier}, options, {}));
}
int World::join() const {
  const Handle all = join_async();
  all.wait();
  return all.source();
}
Handle World::join_async() const { return handle_of(impl_->join_others()); }

void World::start_timeline(const std::filesystem::path& file) const {
  impl_->start_timeline({.file = file});
}
void World::stop_timeline() const { impl_->stop_timeline(); }
void World::mark(const char* phase, std::string_view name,
                 std::chrono::steady_clock::time_point start) const {
  if (!impl_->timeline().on()) return;
  impl_->timeline().record(
      {engine::Lane::training, phase, std::string(name), start, std::chrono::steady_clock::now()});
}

std::optional<World> World::process_set(std::vector<int> ranks) const {
  auto impl = impl_->process_set(std::move(ranks));
  if (!impl) return std::nullopt;
  return World(std::move(impl));
}

std::shared_ptr<std::byte> World::allocate_shared(std::size_t bytes) const {
  if (bytes > kMostShared) {
    throw InputError(
        fmt::format("allocate_shared: {} bytes, expected at most {}", bytes, kMostShared));
  }
  std::shared_ptr<std::byte> memory;
  const Interruptible by_nothing(nullptr);  // what is submitted uses this frame
  impl_->submit([&](Communicator& c) { memory = c.allocate_shared(bytes); }, {.name = "allocate"})
      ->wait();
  return memory;
}

}  // namespace sullae
