// What was decoded of files whose pieces are read as a whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace sullae::data {

/// Keeps the pieces that were used last, of all files of a data set, up to a number of bytes. Any
/// thread.
class PieceCache {
 public:
  /// Something decoded, and what it takes.
  struct Piece {
    std::shared_ptr<const void> content;
    std::size_t bytes = 0;
  };

  explicit PieceCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// A number of its own for each file.
  std::uint64_t add_file() { return files_++; }
  /// The piece `number` of a file, made by `decode` where it is not kept: by one thread, while
  /// others that want it wait. What decode() throws, each of them gets, and nothing is kept. `name`
  /// is the file's, for messages.
  std::shared_ptr<const void> get(std::uint64_t file, std::size_t number, const std::string& name,
                                  const std::function<Piece()>& decode);

 private:
  struct Key {
    std::uint64_t file;
    std::size_t number;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>{}(key.file * 0x9e3779b97f4a7c15U + key.number);
    }
  };
  struct Slot {
    std::mutex decoding;  ///< held by who makes the piece
    Piece piece;
    std::list<Key>::iterator place;
  };

  void keep(const Key& key, const std::shared_ptr<Slot>& slot, const std::string& name);

  std::size_t max_bytes_;
  std::atomic<std::uint64_t> files_ = 0;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<Key, std::shared_ptr<Slot>, Hash> slots_;
  std::list<Key> used_;  ///< the last one first
  std::size_t bytes_ = 0;
  std::size_t decoded_ = 0;
  std::unordered_set<Key, Hash> known_;
  std::size_t asked_ = 0;
  std::size_t again_ = 0;  ///< of decoded_, those that had been before
  bool warned_ = false;
};

}  // namespace sullae::data
