// A message as it came.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace sullae::kafka {

/// A value that can be moved; what it refers to lives as long as it does.
struct Message {
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  /// When it was made, in milliseconds since 1970, UTC; -1 where nothing is known.
  std::int64_t time = -1;
  std::optional<std::string_view> key;
  /// None: what has this key is deleted.
  std::optional<std::string_view> value;
  std::unique_ptr<void, void (*)(void*)> owner{nullptr, nullptr};
};

}  // namespace sullae::kafka
