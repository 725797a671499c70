// A checkpoint whose large tensors stay on the disk until they are asked for, in parts.
#pragma once

#include <torch/serialize.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "torch/checkpoint_file.h"

namespace sullae {

/// Large tensors of archive() have shapes and addresses, and take no memory before something is
/// written there: read them with this. Used by one thread.
class LazyArchive {
 public:
  /// Throws CheckpointError where the file is missing, torn or damaged.
  explicit LazyArchive(const std::filesystem::path& file);

  torch::serialize::InputArchive& archive() { return archive_; }
  /// The elements [from, to) of one of its tensors, as they lie in memory. Throws CheckpointError.
  void read(const torch::Tensor& stored, std::size_t from, std::size_t to, void* into);
  /// Reads all of it to where it is. Throws CheckpointError.
  void fill(const torch::Tensor& stored);
  /// The same of all that are left.
  void fill_all();

 private:
  void read_at(std::uint64_t position, void* into, std::size_t bytes);

  std::string name_;
  CheckedFile file_;
  torch::serialize::InputArchive archive_;
  struct Place {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  std::map<void*, Place> places_;  // in the file, by address
};

}  // namespace sullae
