#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "storage/spool.h"
#include "storage/storage.h"
#include "storage/stores.h"

namespace sullae::storage {
namespace {

// What is fetched at a time, and at most at a time.
constexpr std::uint64_t kBlock = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostBlocks = 16;

class RemoteFile final : public Reader {
 public:
  RemoteFile(Location location, Status status)
      : location_(std::move(location)),
        status_(std::move(status)),
        store_(store_of(location_)),
        spool_(make_spool()),
        blocks_((status_.bytes + kBlock - 1) / kBlock, Block::absent) {}

  std::uint64_t size() const override { return status_.bytes; }

  void read(std::uint64_t offset, void* into, std::size_t bytes) const override {
    if (bytes == 0) return;
    if (offset > status_.bytes || bytes > status_.bytes - offset)
      throw InputError(fmt::format("{}: is truncated: it ends at byte {}, expected {} from byte {}",
                                   location_.name(), status_.bytes, bytes, offset));
    have(offset / kBlock, (offset + bytes - 1) / kBlock + 1);
    read_spool(spool_.get(), offset, into, bytes);
  }

 private:
  enum class Block : unsigned char { absent, fetching, there };

  // The blocks [begin, end): each is fetched by one thread, while others that want it wait.
  void have(std::uint64_t begin, std::uint64_t end) const {
    std::unique_lock lock(mutex_);
    while (begin < end) {
      if (blocks_[begin] == Block::there) {
        ++begin;
      } else if (blocks_[begin] == Block::fetching) {
        changed_.wait(lock, [&] { return blocks_[begin] != Block::fetching; });
      } else {
        std::uint64_t to = begin;
        while (to < end && to - begin < kMostBlocks && blocks_[to] == Block::absent)
          blocks_[to++] = Block::fetching;
        lock.unlock();
        Block now = Block::absent;
        std::exception_ptr failure;
        try {
          fetch(begin, to);
          now = Block::there;
        } catch (const std::exception&) {
          failure = std::current_exception();
        }
        lock.lock();
        std::fill(blocks_.begin() + static_cast<std::ptrdiff_t>(begin),
                  blocks_.begin() + static_cast<std::ptrdiff_t>(to), now);
        changed_.notify_all();
        if (failure) std::rethrow_exception(failure);
      }
    }
  }

  void fetch(std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t offset = begin * kBlock;
    const std::uint64_t bytes = std::min(end * kBlock, status_.bytes) - offset;
    fetch_to_spool(spool_.get(), store_, location_.path, status_.version, offset, bytes);
  }

  Location location_;
  Status status_;
  Store& store_;
  UniqueFd spool_;
  mutable std::mutex mutex_;  // guards:
  mutable std::condition_variable changed_;
  mutable std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Reader> open_remote(const std::filesystem::path& file, const Status& status) {
  return std::make_unique<RemoteFile>(find_location(file).value(), status);
}

}  // namespace sullae::storage
