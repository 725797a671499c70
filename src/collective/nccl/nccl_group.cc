#include "collective/nccl/nccl_group.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "base/log.h"
#include "collective/counts.h"
#include "sullae/error.h"

namespace sullae::nccl {
namespace {

// How often to ask whether a call that NCCL has taken on is done.
constexpr std::chrono::microseconds kNap{50};
// For what is on its way to other ranks when the group ends.
constexpr std::chrono::seconds kLeaving{10};

ncclDataType_t type_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::int8:
      return ncclInt8;
    case DataType::int16:
      throw InputError("NCCL knows no int16: move the tensor to the CPU, or convert it to int32");
    case DataType::int32:
      return ncclInt32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint8:
    case DataType::boolean:
      return ncclUint8;
  }
  return ncclUint8;
}

// Booleans are bytes 0 and 1: "or" is their maximum, "and" their minimum.
ncclRedOp_t op_of(ReduceOp op, DataType type) {
  const bool boolean = type == DataType::boolean;
  switch (op) {
    case ReduceOp::sum:
      return boolean ? ncclMax : ncclSum;
    case ReduceOp::average:
      if (boolean) break;
      return ncclAvg;
    case ReduceOp::product:
      return boolean ? ncclMin : ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::adasum:
      break;
  }
  throw InputError(fmt::format("{} of {} is not defined on GPUs", name(op), sullae::name(type)));
}

bool all_equal(std::span<const std::size_t> counts) {
  return std::ranges::adjacent_find(counts, std::not_equal_to<>()) == counts.end();
}

// Several calls as one operation.
template <class Calls>
ncclResult_t grouped(const Calls& calls) {
  ncclGroupStart();
  ncclResult_t result = ncclSuccess;
  const auto keep_first = [&](ncclResult_t one) {
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  };
  calls(keep_first);
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

}  // namespace

Group::Group(Rendezvous& rendezvous, const Options& options, std::shared_ptr<Stream> stream)
    : options_(options), stream_(std::move(stream)) {
  const Deadline deadline(options.rendezvous_timeout);
  const std::string key = "nccl/" + options.group.name;
  ncclUniqueId id{};
  if (rank() == 0) {
    settle("asking for an id", ncclGetUniqueId(&id), deadline);
    rendezvous.put(options.group.ranks, key, {id.internal, sizeof id.internal});
  } else {
    const std::string text = rendezvous.get(options.group.ranks.front(), key);
    std::memcpy(id.internal, text.data(), std::min(text.size(), sizeof id.internal));
  }
  const OnDevice on(options.device);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    settle("joining the ranks", ncclCommInitRankConfig(&handle_, size(), id, rank(), &config),
           deadline);
  } catch (...) {  // also what has ended the world
    if (handle_ != nullptr) ncclCommAbort(handle_);
    throw;
  }
  watchdog_.emplace(handle_, stream_, options.timeout, options.failure);
}

Group::~Group() {
  // Ends by itself, or by the watchdog; of a group that has failed nothing is waited for.
  const bool is_done = !abandoned_ && cudaStreamSynchronize(stream_->handle()) == cudaSuccess;
  watchdog_->stop();
  if (watchdog_->aborted()) return;
  if (is_done)
    destroy();
  else
    ncclCommAbort(handle_);  // waits for nobody
}

// What this rank's kernels have handed to NCCL's threads is still on its way to others, which an
// abort would keep it from. NCCL waits for that, and for ranks of this host, without a limit.
void Group::destroy() noexcept {
  const auto limit = std::min<std::chrono::milliseconds>(options_.timeout.time, kLeaving);
  const auto left = std::make_shared<std::promise<void>>();
  const auto done = left->get_future();
  try {
    std::thread([handle = handle_, stream = stream_, left] {
      cudaSetDevice(stream->device());
      ncclCommDestroy(handle);
      left->set_value();
    }).detach();
    if (done.wait_for(limit) == std::future_status::ready) return;
    log::warning("NCCL: leaving the ranks was not done {}; it goes on in the background",
                 Deadline(limit, "the limit of an operation, and at most 10 s").describe());
  } catch (const std::system_error& error) {  // there are no more threads
    log::warning("NCCL: leaving the ranks: {}", error.what());
    ncclCommAbort(handle_);
  }
}

void Group::settle(const char* what, ncclResult_t result, const Deadline& deadline) {
  while (result == ncclInProgress) {
    if (deadline.passed()) {
      throw TimeoutError(fmt::format("NCCL: {} was not done {}", what, deadline.describe()));
    }
    if (options_.failure != nullptr) options_.failure->check();
    std::this_thread::sleep_for(kNap);
    if (ncclCommGetAsyncError(handle_, &result) != ncclSuccess) break;
  }
  if (result != ncclSuccess) {
    throw Error(fmt::format("NCCL: {}: {} ({})", what, ncclGetErrorString(result),
                            ncclGetLastError(handle_)));
  }
}

void Group::enqueue(const char* what, const std::function<ncclResult_t()>& call) {
  const std::lock_guard calling(watchdog_->mutex());
  watchdog_->check();
  const OnDevice on(options_.device);
  settle(what, call(), Deadline(options_.timeout));
  watchdog_->note();
}

void Group::allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) {
  const ncclRedOp_t native = op_of(op, type);
  enqueue("allreduce", [&] {
    return ncclAllReduce(in, out, count, type_of(type), native, handle_, stream_->handle());
  });
}

void Group::reducescatter(const void* in, void* out, std::span<const std::size_t> counts,
                          DataType type, ReduceOp op) {
  const ncclRedOp_t native = op_of(op, type);
  if (all_equal(counts)) {
    return enqueue("reducescatter", [&] {
      return ncclReduceScatter(in, out, counts[0], type_of(type), native, handle_,
                               stream_->handle());
    });
  }
  const auto offsets = offsets_of(counts);
  enqueue("reducescatter", [&] {
    return grouped([&](const auto& keep) {
      for (std::size_t root = 0; root < counts.size(); ++root) {
        keep(ncclReduce(static_cast<const std::byte*>(in) + offsets[root] * element_size(type), out,
                        counts[root], type_of(type), native, static_cast<int>(root), handle_,
                        stream_->handle()));
      }
    });
  });
}

void Group::allgather(const void* in, void* out, std::span<const std::size_t> counts,
                      DataType type) {
  if (all_equal(counts)) {
    return enqueue("allgather", [&] {
      return ncclAllGather(in, out, counts[0], type_of(type), handle_, stream_->handle());
    });
  }
  const auto offsets = offsets_of(counts);
  enqueue("allgather", [&] {
    return grouped([&](const auto& keep) {
      for (std::size_t root = 0; root < counts.size(); ++root) {
        keep(ncclBroadcast(in, static_cast<std::byte*>(out) + offsets[root] * element_size(type),
                           counts[root], type_of(type), static_cast<int>(root), handle_,
                           stream_->handle()));
      }
    });
  });
}

void Group::broadcast(void* data, std::size_t count, DataType type, int root) {
  enqueue("broadcast", [&] {
    return ncclBroadcast(data, data, count, type_of(type), root, handle_, stream_->handle());
  });
}

void Group::alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                     std::span<const std::size_t> receive_counts, DataType type) {
  if (in == out && size() > 1)
    throw InputError("alltoall on GPUs: expected another buffer for what is received");
  const std::size_t width = element_size(type);
  const auto sends = offsets_of(send_counts);
  const auto receives = offsets_of(receive_counts);
  enqueue("alltoall", [&] {
    return grouped([&](const auto& keep) {
      for (int peer = 0; peer < size(); ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        keep(ncclSend(static_cast<const std::byte*>(in) + sends[p] * width, send_counts[p],
                      type_of(type), peer, handle_, stream_->handle()));
        keep(ncclRecv(static_cast<std::byte*>(out) + receives[p] * width, receive_counts[p],
                      type_of(type), peer, handle_, stream_->handle()));
      }
    });
  });
}

}  // namespace sullae::nccl
