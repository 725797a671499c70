#include <fmt/format.h>
#include <torch/serialize.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "sullae/torch.h"
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
  std::exception_ptr failure;
  if (world.rank() == root) {
    try {
      torch::serialize::OutputArchive archive;
      save_optimizer(archive, optimizer);
      bytes = bytes_of(archive);
    } catch (
        ...) {  // whatever an optimizer of a user's own does: the others are told, and wait for nothing
      failure = std::current_exception();
    }
  }
  std::uint8_t is_there = failure ? 0 : 1;
  world.broadcast(&is_there, 1, DataType::uint8, root);
  if (failure) std::rethrow_exception(failure);
  if (is_there == 0)
    throw Error(fmt::format(
        "broadcast_optimizer_state: rank {} could not write the state: its own message says why",
        root));
  bytes = broadcast_text(std::move(bytes), root, world);
  if (world.rank() == root) return;
  auto archive = archive_of(std::move(bytes));
  load_optimizer(archive, optimizer);
}

}  // namespace sullae
