// Ordinary memory behind allocate_shared, where there is no segment to share.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <new>

#include "sullae/error.h"

namespace sullae {

class AlignedBuffers {
 public:
  std::byte* allocate(std::size_t bytes) {
    auto* memory = new (std::align_val_t{64}) std::byte[bytes]{};
    buffers_.emplace(memory, memory);
    return memory;
  }
  void free(std::byte* memory) {
    if (buffers_.erase(memory) == 0) throw Error("free_shared: the memory was not allocated with allocate_shared");
  }

 private:
  struct Delete {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::map<std::byte*, std::unique_ptr<std::byte[], Delete>> buffers_;
};

}  // namespace sullae
