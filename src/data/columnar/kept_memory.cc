#include "data/columnar/kept_memory.h"

#include <arrow/status.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sullae::data {
namespace {

constexpr std::int64_t kLarge = std::int64_t{256} << 10;
constexpr std::int64_t kMostKept = std::int64_t{128} << 20;

class KeptMemory final : public arrow::MemoryPool {
 public:
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    if (size < kLarge || alignment > arrow::kDefaultBufferAlignment)
      return below_->Allocate(size, alignment, out);
    const std::lock_guard lock(mutex_);
    // One that is much larger is for others.
    const auto found = free_.lower_bound(size);
    if (found != free_.end() && found->first <= 2 * size) {
      *out = found->second;
      used_[*out] = found->first;
      kept_ -= found->first;
      free_.erase(found);
      return arrow::Status::OK();
    }
    const auto status = below_->Allocate(size, alignment, out);
    if (status.ok()) used_[*out] = size;
    return status;
  }

  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** ptr) override {
    const std::int64_t capacity = capacity_of(*ptr);
    if (capacity == 0 && new_size < kLarge)
      return below_->Reallocate(old_size, new_size, alignment, ptr);
    if (new_size <= capacity && 2 * new_size > capacity) return arrow::Status::OK();
    std::uint8_t* fresh = nullptr;
    if (auto status = Allocate(new_size, alignment, &fresh); !status.ok()) return status;
    std::memcpy(fresh, *ptr, static_cast<std::size_t>(std::min(old_size, new_size)));
    Free(*ptr, old_size, alignment);
    *ptr = fresh;
    return arrow::Status::OK();
  }

  void Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) override {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(buffer);
    if (found == used_.end()) {
      below_->Free(buffer, size, alignment);
      return;
    }
    free_.emplace(found->second, buffer);
    kept_ += found->second;
    used_.erase(found);
    while (kept_ > kMostKept) release(std::prev(free_.end()));
  }

  void ReleaseUnused() override {
    const std::lock_guard lock(mutex_);
    while (!free_.empty()) release(free_.begin());
    below_->ReleaseUnused();
  }

  std::int64_t bytes_allocated() const override { return below_->bytes_allocated(); }
  std::int64_t max_memory() const override { return below_->max_memory(); }
  std::int64_t total_bytes_allocated() const override { return below_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return below_->num_allocations(); }
  std::string backend_name() const override { return below_->backend_name(); }

 private:
  using Blocks = std::multimap<std::int64_t, std::uint8_t*>;

  // 0 for what is none of the large blocks.
  std::int64_t capacity_of(std::uint8_t* block) const {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(block);
    return found == used_.end() ? 0 : found->second;
  }

  void release(Blocks::iterator block) {
    kept_ -= block->first;
    below_->Free(block->second, block->first, arrow::kDefaultBufferAlignment);
    free_.erase(block);
  }

  arrow::MemoryPool* below_ = arrow::default_memory_pool();
  mutable std::mutex mutex_;                              // guards:
  std::unordered_map<std::uint8_t*, std::int64_t> used_;  // of large blocks, with what they hold
  Blocks free_;
  std::int64_t kept_ = 0;
};

}  // namespace

arrow::MemoryPool* kept_memory() {
  static auto* const pool = new KeptMemory;  // what is decoded may outlive all else
  return pool;
}

}  // namespace sullae::data
