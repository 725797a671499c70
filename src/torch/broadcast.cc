#include <torch/serialize.h>

#include <sstream>

#include "sullae/torch.h"
#include "torch/optimizer_state.h"

namespace sullae {

void broadcast_parameters(torch::nn::Module& module, int root, const World& world) {
  if (world.size() == 1) return;
  const torch::NoGradGuard guard;
  for (auto& parameter : module.parameters()) broadcast(parameter, root, world);
  for (auto& buffer : module.buffers()) broadcast(buffer, root, world);
}

// libtorch's optimizers differ in what they keep, but all write themselves to an archive.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root, const World& world) {
  if (world.size() == 1) return;
  std::string bytes;
  if (world.rank() == root) {
    torch::serialize::OutputArchive archive;
    save_optimizer(archive, optimizer);
    std::ostringstream stream;
    archive.save_to(stream);
    bytes = stream.str();
  }
  std::int64_t length = static_cast<std::int64_t>(bytes.size());
  world.broadcast(&length, 1, DataType::int64, root);
  bytes.resize(static_cast<std::size_t>(length));
  world.broadcast(bytes.data(), bytes.size(), DataType::uint8, root);
  if (world.rank() == root) return;
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  load_optimizer(archive, optimizer);
}

}  // namespace sullae
