#include "transport/mpi/mpi_transport.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own_thread.h"
#include "base/stall_warning.h"
#include "sullae/error.h"
#include "transport/mpi/short_tags.h"

namespace sullae {
namespace {

constexpr int kMpiForegroundSpins = 2000;
constexpr int kMpiBackgroundSpins = 20;
constexpr int kYields = 20;
// MPI has no descriptor to sleep on.
constexpr std::chrono::microseconds kMpiNap{50};
// So long what was to be sent may take to arrive after its collective has failed.
constexpr std::chrono::milliseconds kSendLimit{100};

std::string describe(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* what) {
  if (code != MPI_SUCCESS) throw Error(fmt::format("MPI: {}: {}", what, describe(code)));
}

// MPI can be started once in a process, and must be ended before it exits.
void start_mpi() {
  static std::once_flag once;
  std::call_once(once, [] {
    int running = 0;
    MPI_Initialized(&running);
    if (running == 0) {
      int provided = 0;
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "starting");
      std::atexit([] {
        int ended = 0;
        MPI_Finalized(&ended);
        if (ended == 0) MPI_Finalize();
      });
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  });
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    throw InputError(
        "SULLAE_TRANSPORT=mpi: MPI runs without MPI_THREAD_MULTIPLE, which Sullae's channels need");
  }
}

// The communicator of `ranks` of MPI_COMM_WORLD, which only they take part in making.
MPI_Comm make_group(const TransportOptions& options) {
  start_mpi();
  int own = 0;
  int size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "asking for the rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "asking for the size");
  const int rank = options.ranks[static_cast<std::size_t>(options.index)];
  if (own != rank || std::ranges::max(options.ranks) >= size) {
    throw InputError(fmt::format(
        "SULLAE_TRANSPORT=mpi: rank {} of the world is rank {} of {} of MPI_COMM_WORLD: start the "
        "program with mpirun or srun, one process a rank",
        rank, own, size));
  }
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  check(MPI_Comm_group(MPI_COMM_WORLD, &world), "asking for the group");
  check(
      MPI_Group_incl(world, static_cast<int>(options.ranks.size()), options.ranks.data(), &members),
      "choosing ranks");
  // Channels of several process sets may be made at the same time by different threads.
  const int tag = static_cast<int>(fnv1a(options.name) & 0x7fff);
  check(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &communicator),
        "making a communicator");
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  return communicator;
}

ShortTags make_tags(MPI_Comm communicator, std::size_t ranks) {
  void* most = nullptr;  // to an int
  int is_there = 0;
  check(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&most), &is_there),
        "asking for the largest tag");
  constexpr int kPromised = 32767;
  return {static_cast<std::uint64_t>(is_there != 0 ? *static_cast<int*>(most) : kPromised),
          static_cast<int>(ranks)};
}

// MPI counts in int: what is larger is counted in blocks.
class ByteType {
 public:
  explicit ByteType(std::size_t bytes) : count_(static_cast<int>(bytes)) {
    if (bytes <= INT_MAX) return;
    constexpr std::size_t kBlock = std::size_t{1} << 20;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block);
    const int lengths[] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes / kBlock * kBlock)};
    const MPI_Datatype types[] = {block, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&block);
    count_ = 1;
  }
  ~ByteType() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);  // MPI keeps it as long as a message needs it
  }
  ByteType(const ByteType&) = delete;
  ByteType& operator=(const ByteType&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(TransportOptions options)
      : options_(std::move(options)),
        communicator_(make_group(options_)),
        tags_(make_tags(communicator_, options_.ranks.size())) {}
  // A communicator is freed by all its ranks together, which a rank that has failed does not live
  // to do.
  ~MpiTransport() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (!broken() && ended == 0) MPI_Comm_free(&communicator_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return options_.index; }
  int size() const override { return static_cast<int>(options_.ranks.size()); }
  std::string name() const override { return "mpi"; }
  int world_rank(int peer) const override { return options_.ranks[static_cast<std::size_t>(peer)]; }

  Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) override {
    auto request = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
    const ByteType type(bytes);
    check_peer(MPI_Isend(data, type.count(), type.type(), peer, short_tag(tag), communicator_,
                         request.get()),
               peer);
    pending_.push_back({request.get(), false});
    return {request.release(), peer, bytes, false};
  }

  Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) override {
    auto request = std::make_unique<MPI_Request>(MPI_REQUEST_NULL);
    const ByteType type(bytes);
    check_peer(MPI_Irecv(data, type.count(), type.type(), peer, short_tag(tag), communicator_,
                         request.get()),
               peer);
    pending_.push_back({request.get(), true});
    return {request.release(), peer, bytes, true};
  }

  void wait(std::span<Request> requests) override {
    const Deadline deadline(options_.timeout);
    StallWarning warning(options_.stall_warning);
    const int spins = in_own_thread ? kMpiBackgroundSpins : kMpiForegroundSpins;
    for (Request& request : requests) {
      for (int tries = 0; request.native != nullptr && !finish(request); ++tries) {
        if (tries < spins) continue;
        check_world(*options_.failure);
        check_alarm();
        if (tries < spins + kYields) {
          ::sched_yield();
        } else {
          std::this_thread::sleep_for(kMpiNap);
          warning.check("a collective", world_rank(rank()), world_rank(request.peer));
        }
        if (deadline.passed()) fail_timeout(request, deadline);
      }
    }
  }

  bool test(Request& request) override { return request.native == nullptr || finish(request); }

  std::optional<Arrival> probe(std::uint64_t tag) override {
    int found = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, short_tag(tag), communicator_, &found, &status), "probing");
    if (found == 0) return std::nullopt;
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    return Arrival{status.MPI_SOURCE, static_cast<std::size_t>(bytes)};
  }

  void abandon() noexcept override {
    for (const Pending& one : pending_) {
      if (one.receives) MPI_Cancel(one.request);
    }
    const Deadline deadline(options_.timeout);
    const auto sends_until = std::chrono::steady_clock::now() + kSendLimit;
    while (!pending_.empty() && !deadline.passed()) {
      std::erase_if(pending_, [](const Pending& one) {
        int done = 0;
        if (MPI_Test(one.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0)
          return false;
        delete one.request;
        return true;
      });
      // What its receiver does not expect any more, MPI keeps for ever. It reads there at most, and
      // only if it is asked for after all.
      const bool patient = !broken() && std::chrono::steady_clock::now() < sends_until;
      if (!patient && std::ranges::none_of(pending_, &Pending::receives)) return forget();
      if (!pending_.empty()) std::this_thread::sleep_for(kMpiNap);
    }
    if (pending_.empty()) return;
    // MPI has no way to take a message back that has begun to come, and would write into memory
    // that belongs to others by now.
    log::warning("MPI has not let go of a message {}: ending the job", deadline.describe());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  int short_tag(std::uint64_t tag) const { return tags_.of(tag); }

  bool finish(Request& request) {
    auto* const native = static_cast<MPI_Request*>(request.native);
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(native, &done, &status);
    if (code == MPI_SUCCESS && done == 0) return false;
    std::erase_if(pending_, [&](const Pending& one) { return one.request == native; });
    request.native = nullptr;
    const std::unique_ptr<MPI_Request> owner(native);
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    MPI_Count received = 0;
    if (code == MPI_SUCCESS && request.receives) MPI_Get_elements_x(&status, MPI_BYTE, &received);
    const bool shorter = code == MPI_SUCCESS && request.receives &&
                         received != static_cast<MPI_Count>(request.bytes);
    if (kind == MPI_ERR_TRUNCATE || shorter)
      throw other_length(request, shorter ? fmt::to_string(received) : "more");
    check_peer(code, request.peer);
    return true;
  }

  void check_alarm() {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Improbe(MPI_ANY_SOURCE, short_tag(alarm_tag()), communicator_, &found, &handle,
                MPI_STATUS_IGNORE);
    if (found == 0) return;
    std::array<char, kAlarmBytes> message{};
    MPI_Mrecv(message.data(), kAlarmBytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    take_alarm(message);
  }

  void check_peer(int code, int peer) {
    if (code == MPI_SUCCESS) return;
    fail_peer(peer, fmt::format("MPI: {}", describe(code)));
  }

  void forget() noexcept {
    for (const Pending& one : pending_) delete one.request;
    pending_.clear();
  }

  struct Pending {
    MPI_Request* request;
    bool receives;
  };

  TransportOptions options_;
  MPI_Comm communicator_;
  ShortTags tags_;
  std::vector<Pending> pending_;  // requests that have not completed
};

}  // namespace

bool mpi_is_available() { return true; }

std::unique_ptr<Transport> make_mpi_transport(Rendezvous& rendezvous, TransportOptions options) {
  // Making its communicator has no limit of time: it begins when all are there.
  rendezvous.fence(options.ranks, "mpi/" + options.name);
  return std::make_unique<MpiTransport>(std::move(options));
}

}  // namespace sullae
