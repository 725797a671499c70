// Ordinary memory behind allocate_shared, where there is no segment to share.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace sullae {

inline std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
  return {new (std::align_val_t{64}) std::byte[bytes]{}, [](std::byte* memory) {
            ::operator delete[](memory, std::align_val_t{64});
          }};
}

}  // namespace sullae
