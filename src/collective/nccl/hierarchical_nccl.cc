#include <exception>
#include <mutex>

#include "collective/counts.h"
#include "collective/nccl/nccl_group.h"
#include "collective/reduce/reduce.h"

namespace sullae::nccl {
namespace {

// Memory that the GPU copies to and from without the processor.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() { cudaFreeHost(memory_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  void* at_least(std::size_t bytes, cudaStream_t stream) {
    if (bytes <= size_) return memory_;
    check(cudaStreamSynchronize(stream), "waiting for the stream");  // which may still use the old
    cudaFreeHost(memory_);
    memory_ = nullptr;
    size_ = 0;
    check(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault), "allocating pinned memory");
    size_ = bytes;
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

class HierarchicalNccl final : public DeviceCommunicator {
 public:
  HierarchicalNccl(Rendezvous& rendezvous, const Options& options, const GroupOptions& local,
                   std::unique_ptr<Communicator> cross)
      : device_(options.device),
        stream_(std::make_shared<Stream>(options.device)),
        all_(rendezvous, options, stream_),
        local_(rendezvous, with_group(options, local), stream_),
        cross_(std::move(cross)) {}
  ~HierarchicalNccl() override { cudaStreamSynchronize(stream_->handle()); }
  HierarchicalNccl(const HierarchicalNccl&) = delete;
  HierarchicalNccl& operator=(const HierarchicalNccl&) = delete;

  void check() const override {
    rethrow();
    all_.check();
    local_.check();
  }
  void abandon() override {
    all_.abandon();
    local_.abandon();
  }
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  std::string backend() const override { return "nccl+" + cross_->backend(); }
  void* stream() const override { return stream_->handle(); }

  // Each rank of a host reduces its slice over the hosts, in host memory.
  void allreduce(const void* in, void* out, std::size_t count, DataType type,
                 ReduceOp op) override {
    reduction::check_elementwise(type, op);
    rethrow();
    const std::size_t width = element_size(type);
    const ReduceOp partial = partial_of(op, type);
    const auto counts = equal_counts(count, local_.size());
    const Range mine = part_of(count, local_.rank(), local_.size());
    auto* const slice = static_cast<std::byte*>(out) + mine.begin * width;
    local_.reducescatter(in, slice, counts, type, partial);
    {
      const OnDevice on(device_);
      const std::size_t bytes = mine.size() * width;
      void* const host = staging_.at_least(bytes, stream_->handle());
      nccl::check(cudaMemcpyAsync(host, slice, bytes, cudaMemcpyDeviceToHost, stream_->handle()),
                  "copying to the host");
      auto crossing = std::make_unique<Crossing>(Crossing{this, host, mine.size(), type, op});
      nccl::check(cudaLaunchHostFunc(stream_->handle(), &HierarchicalNccl::cross, crossing.get()),
                  "calling the host");
      static_cast<void>(crossing.release());  // cross() owns it now
      nccl::check(cudaMemcpyAsync(slice, host, bytes, cudaMemcpyHostToDevice, stream_->handle()),
                  "copying from the host");
    }
    local_.allgather(slice, out, counts, type);
  }
  void reducescatter(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                     ReduceOp op) override {
    all_.reducescatter(in, out, counts, type, op);
  }
  void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                 DataType type) override {
    all_.allgather(in, out, counts, type);
  }
  void broadcast(void* data, std::size_t count, DataType type, int root) override {
    all_.broadcast(data, count, type, root);
  }
  void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                std::span<const std::size_t> receive_counts, DataType type) override {
    all_.alltoall(in, send_counts, out, receive_counts, type);
  }

 private:
  struct Crossing {
    HierarchicalNccl* self;
    void* values;
    std::size_t count;
    DataType type;
    ReduceOp op;
  };

  static Options with_group(Options options, const GroupOptions& group) {
    options.group = group;
    return options;
  }

  // An average is divided once, at the end, but for float16's, whose sums may be infinite where it
  // is not. All hosts have as many ranks here.
  static ReduceOp partial_of(ReduceOp op, DataType type) {
    return op == ReduceOp::average && type != DataType::float16 ? ReduceOp::sum : op;
  }

  // In CUDA's thread, in the order of the stream. CUDA may not be called here, nor anything thrown.
  static void CUDART_CB cross(void* argument) {
    const std::unique_ptr<Crossing> crossing(static_cast<Crossing*>(argument));
    const auto [self, values, count, type, op] = *crossing;
    try {
      const ReduceOp partial = partial_of(op, type);
      self->cross_->allreduce(values, values, count, type, partial);
      if (partial != op) {
        const void* input = values;
        void* output = values;
        reduction::run({&input, 1, &output, 1, count, op, self->size()}, type);
      }
    } catch (...) {
      const std::lock_guard lock(self->mutex_);
      if (!self->error_) self->error_ = std::current_exception();
    }
  }

  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

  int device_;
  std::shared_ptr<Stream> stream_;
  Group all_;
  Group local_;
  std::unique_ptr<Communicator> cross_;
  PinnedMemory staging_;
  mutable std::mutex mutex_;
  std::exception_ptr error_;  // of cross(), for the next call
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_hierarchical(Rendezvous& rendezvous,
                                                      const Options& options,
                                                      const GroupOptions& local,
                                                      std::unique_ptr<Communicator> cross) {
  return std::make_unique<HierarchicalNccl>(rendezvous, options, local, std::move(cross));
}

}  // namespace sullae::nccl
