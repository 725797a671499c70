#include "train/broadcast_text.h"

namespace sullae::train {

std::string broadcast_text(std::string text, const World& world) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast(&size, 1, DataType::int64, 0);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.broadcast(text.data(), text.size(), DataType::uint8, 0);
  return text;
}

}  // namespace sullae::train
