#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <vector>

#include "base/config.h"
#include "base/host.h"
#include "base/log.h"
#include "collective/make_communicator.h"
#include "collective/self_communicator.h"
#include "engine/background_queue.h"
#include "sullae/sullae.h"
#include "transport/store/store_server.h"

namespace sullae {
namespace {

// How long the rank that serves the store waits for the others to leave before it takes the store
// away.
constexpr std::chrono::seconds kDrainLimit{5};

Config merge(const WorldOptions& options) {
  Config config = Config::from(process_environment());
  if (!options.transport.empty()) config.transport = options.transport;
  if (!options.host_id.empty()) config.host_id = options.host_id;
  if (options.timeout.count() > 0) config.timeout = options.timeout;
  if (options.rendezvous_timeout.count() > 0)
    config.rendezvous_timeout = options.rendezvous_timeout;
  if (config.host_id.empty()) config.host_id = host_identity();
  return config;
}

std::vector<std::size_t> same_for_all(std::size_t count, int size) {
  return std::vector<std::size_t>(static_cast<std::size_t>(size), count);
}

}  // namespace

struct Handle::State {
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
};

bool Handle::done() const { return !state_ || state_->completion->done(); }
void Handle::wait() const {
  if (state_) state_->completion->wait();
}

class World::Impl {
 public:
  explicit Impl(const WorldOptions& options) : config_(merge(options)) {
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
      throw InputError(fmt::format("rank {} of a world of {}: expected 0 <= rank < size",
                                   options.rank, options.size));
    }
    log::set_rank(options.size > 1 ? options.rank : -1);
    if (options.size == 1) {
      foreground_ = std::make_unique<SelfCommunicator>();
      background_ = std::make_unique<SelfCommunicator>();
    } else {
      join(options);
    }
    queue_.emplace(options.rank);
  }

  ~Impl() {
    queue_.reset();
    background_.reset();
    foreground_.reset();
    store_.reset();
    if (server_) server_->drain(kDrainLimit);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Topology& topology() const { return topology_; }

  // Runs a blocking collective in the calling thread.
  template <class Call>
  void run(const Call& call) {
    const std::lock_guard lock(foreground_mutex_);
    call(*foreground_);
  }

  template <class Call>
  std::shared_ptr<Handle::State> submit(Call call) {
    auto state = std::make_shared<Handle::State>();
    queue_->submit([this, call = std::move(call)] { call(*background_); }, state->completion);
    return state;
  }

  void check_root(int root) const {
    if (root < 0 || root >= topology_.size) {
      throw InputError(
          fmt::format("root {}: expected a rank between 0 and {}", root, topology_.size - 1));
    }
  }

  void check_counts(std::span<const std::size_t> counts) const {
    if (counts.size() != static_cast<std::size_t>(topology_.size)) {
      throw InputError(fmt::format("{} counts for {} ranks: expected one count a rank",
                                   counts.size(), topology_.size));
    }
  }

 private:
  void join(const WorldOptions& options) {
    const Deadline deadline(config_.rendezvous_timeout, "SULLAE_RENDEZVOUS_TIMEOUT");
    const StoreAddress address = StoreAddress::parse(options.store);
    if (options.serve_store && options.rank == 0) server_ = std::make_unique<StoreServer>(address);
    store_ = std::make_unique<Store>(address, deadline);
    topology_ = Topology::discover(*store_, options.rank, options.size, config_.host_id, deadline);
    const auto buffers = std::make_shared<shm::SharedBuffers>();
    foreground_ =
        make_communicator(*store_, topology_, config_, {.name = "foreground", .buffers = buffers});
    background_ = make_communicator(*store_, topology_, config_,
                                    {.name = "background", .background = true, .buffers = buffers});
  }

  Config config_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Store> store_;
  Topology topology_;
  std::mutex foreground_mutex_;  // guards foreground_
  std::unique_ptr<Communicator> foreground_;
  std::unique_ptr<Communicator> background_;  // used by the queue's thread alone
  std::optional<BackgroundQueue> queue_;
};

std::unique_ptr<World> World::create(const WorldOptions& options) {
  return std::unique_ptr<World>(new World(std::make_unique<Impl>(options)));
}

World::World(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
World::~World() = default;

int World::rank() const { return impl_->topology().rank; }
int World::size() const { return impl_->topology().size; }
int World::local_rank() const { return impl_->topology().local_rank(); }
int World::local_size() const { return impl_->topology().local_size(); }
int World::cross_rank() const { return impl_->topology().cross_rank(); }
int World::cross_size() const { return impl_->topology().cross_size(); }

void World::allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
  impl_->run([&](Communicator& c) { c.allreduce(in, out, count, type, op); });
}
void World::reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                   int root) {
  impl_->check_root(root);
  impl_->run([&](Communicator& c) { c.reduce(in, out, count, type, op, root); });
}
void World::reducescatter(const void* in, void* out, std::size_t count, DataType type,
                          ReduceOp op) {
  reducescatterv(in, out, same_for_all(count, size()), type, op);
}
void World::reducescatterv(const void* in, void* out, std::span<const std::size_t> counts,
                           DataType type, ReduceOp op) {
  impl_->check_counts(counts);
  impl_->run([&](Communicator& c) { c.reducescatter(in, out, counts, type, op); });
}
void World::allgather(const void* in, void* out, std::size_t count, DataType type) {
  allgatherv(in, out, same_for_all(count, size()), type);
}
void World::allgatherv(const void* in, void* out, std::span<const std::size_t> counts,
                       DataType type) {
  impl_->check_counts(counts);
  impl_->run([&](Communicator& c) { c.allgather(in, out, counts, type); });
}
void World::broadcast(void* data, std::size_t count, DataType type, int root) {
  impl_->check_root(root);
  impl_->run([&](Communicator& c) { c.broadcast(data, count, type, root); });
}
void World::alltoall(const void* in, void* out, std::size_t count, DataType type) {
  const auto counts = same_for_all(count, size());
  alltoallv(in, counts, out, counts, type);
}
void World::alltoallv(const void* in, std::span<const std::size_t> send_counts, void* out,
                      std::span<const std::size_t> receive_counts, DataType type) {
  impl_->check_counts(send_counts);
  impl_->check_counts(receive_counts);
  impl_->run([&](Communicator& c) { c.alltoall(in, send_counts, out, receive_counts, type); });
}
void World::barrier() {
  impl_->run([](Communicator& c) { c.barrier(); });
}

Handle World::allreduce_async(const void* in, void* out, std::size_t count, DataType type,
                              ReduceOp op) {
  return Handle(impl_->submit([=](Communicator& c) { c.allreduce(in, out, count, type, op); }));
}
Handle World::reduce_async(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                           int root) {
  impl_->check_root(root);
  return Handle(impl_->submit([=](Communicator& c) { c.reduce(in, out, count, type, op, root); }));
}
Handle World::reducescatterv_async(const void* in, void* out, std::span<const std::size_t> counts,
                                   DataType type, ReduceOp op) {
  impl_->check_counts(counts);
  std::vector<std::size_t> copy(counts.begin(), counts.end());
  return Handle(impl_->submit([=, counts = std::move(copy)](Communicator& c) {
    c.reducescatter(in, out, counts, type, op);
  }));
}
Handle World::allgatherv_async(const void* in, void* out, std::span<const std::size_t> counts,
                               DataType type) {
  impl_->check_counts(counts);
  std::vector<std::size_t> copy(counts.begin(), counts.end());
  return Handle(impl_->submit(
      [=, counts = std::move(copy)](Communicator& c) { c.allgather(in, out, counts, type); }));
}
Handle World::broadcast_async(void* data, std::size_t count, DataType type, int root) {
  impl_->check_root(root);
  return Handle(impl_->submit([=](Communicator& c) { c.broadcast(data, count, type, root); }));
}
Handle World::alltoallv_async(const void* in, std::span<const std::size_t> send_counts, void* out,
                              std::span<const std::size_t> receive_counts, DataType type) {
  impl_->check_counts(send_counts);
  impl_->check_counts(receive_counts);
  std::vector<std::size_t> sends(send_counts.begin(), send_counts.end());
  std::vector<std::size_t> receives(receive_counts.begin(), receive_counts.end());
  return Handle(
      impl_->submit([=, sends = std::move(sends), receives = std::move(receives)](Communicator& c) {
        c.alltoall(in, sends, out, receives, type);
      }));
}
Handle World::barrier_async() {
  return Handle(impl_->submit([](Communicator& c) { c.barrier(); }));
}

Handle World::submit(std::function<void(Communicator&)> operation) {
  return Handle(impl_->submit(std::move(operation)));
}

std::shared_ptr<std::byte> World::allocate_shared(std::size_t bytes) {
  std::shared_ptr<std::byte> memory;
  Handle(impl_->submit([&](Communicator& c) { memory = c.allocate_shared(bytes); })).wait();
  return memory;
}

}  // namespace sullae
