#include <torch/serialize.h>

#include <utility>

#include "sullae/torch.h"
#include "torch/agreement.h"
#include "torch/archive_bytes.h"
#include "torch/broadcast_text.h"
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
  device_of(optimizer);  // which all refuse, before one waits for others
  std::string bytes;
  on_root(world, root, [&] {  // an optimizer of a user's own may fail
    torch::serialize::OutputArchive archive;
    save_optimizer(archive, optimizer);
    bytes = bytes_of(archive);
  });
  bytes = broadcast_text(std::move(bytes), root, world);
  if (world.rank() == root) return;
  auto archive = archive_of(std::move(bytes));
  load_optimizer(archive, optimizer);
}

}  // namespace sullae
