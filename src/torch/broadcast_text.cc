#include "torch/broadcast_text.h"

namespace sullae {

std::string broadcast_text(std::string text, int root, const World& world) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast(&size, 1, DataType::int64, root);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.broadcast(text.data(), text.size(), DataType::uint8, root);
  return text;
}

}  // namespace sullae
