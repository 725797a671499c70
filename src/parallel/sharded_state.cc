#include "parallel/sharded_state.h"

#include <fmt/format.h>
#include <torch/serialize.h>

#include "parallel/flat.h"
#include "sullae/torch.h"
#include "torch/archive_bytes.h"
#include "torch/broadcast_text.h"
#include "torch/optimizer_state.h"

namespace sullae {
namespace {

constexpr int kTag = 0x5a;  // of this file's messages

std::string options_of(const torch::optim::OptimizerParamGroup& group) {
  torch::serialize::OutputArchive written;
  group.options().serialize(written);
  return bytes_of(written);
}

void send_bytes(const std::string& bytes, int to, const World& world) {
  const auto size = length(bytes.size());
  world.send(&size, 1, DataType::int64, to, kTag);
  if (size > 0) world.send(bytes.data(), bytes.size(), DataType::uint8, to, kTag);
}

std::string receive_bytes(int from, const World& world) {
  std::int64_t size = 0;
  world.receive(&size, 1, DataType::int64, from, kTag);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (size > 0) world.receive(bytes.data(), bytes.size(), DataType::uint8, from, kTag);
  return bytes;
}

}  // namespace

std::string to_bytes(const StateTensors& tensors) {
  if (tensors.empty()) return {};
  torch::serialize::OutputArchive archive;
  for (const auto& [name, value] : tensors) {
    if (value.isTensor()) {
      archive.write(name, value.toTensor());
    } else {
      archive.write(name, value);
    }
  }
  return bytes_of(archive);
}

StateTensors from_bytes(std::string bytes) {
  if (bytes.empty()) return {};
  auto archive = archive_of(std::move(bytes));
  StateTensors tensors;
  for (const auto& name : archive.keys()) archive.read(name, tensors[name]);
  return tensors;
}

bool is_moment(const c10::IValue& value, std::int64_t elements) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == elements;
}

// Through libtorch's own serialization, which knows every kind of state.
StateTensors state_of(const torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  if (!parameter.defined()) return {};
  const auto& states = optimizer.state();
  const auto found = states.find(key_of(states, parameter));
  if (found == states.end() || found->second == nullptr) return {};
  torch::serialize::OutputArchive archive;
  found->second->serialize(archive);
  return from_bytes(bytes_of(archive));
}

void set_state(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter,
               const StateTensors& tensors, const torch::optim::OptimizerParamState& prototype) {
  auto& states = optimizer.state();
  const auto key = key_of(states, parameter);
  if (tensors.empty()) {
    states.erase(key);
    return;
  }
  auto archive = archive_of(to_bytes(tensors));
  move_tensors(archive, parameter.device());
  auto state = prototype.clone();
  state->serialize(archive);
  states[key] = std::move(state);
}

torch::Tensor gather_piece(const ParameterStore& sharded, std::size_t index, int root) {
  const World& world = sharded.world();
  const torch::NoGradGuard guard;
  const torch::Tensor& own = sharded.piece_of(index);
  const torch::Tensor& parameter = sharded.all()[index].tensor;
  const auto updated = updated_type(parameter.scalar_type());
  torch::Tensor whole;
  if (world.rank() == root) whole = torch::empty_like(parameter, updated).set_requires_grad(true);
  for (const Part& part : sharded.parts_of(index)) {
    if (world.rank() == part.rank && part.rank != root) {
      send(own, root, kTag, world);
    } else if (world.rank() == root) {
      torch::Tensor to = range_of(whole.detach(), part.from, part.to);
      if (part.rank == root) {
        to.copy_(own.flatten());
      } else {
        receive(to, part.rank, kTag, world);
      }
    }
  }
  return whole;
}

StateTensors gather_state(const ParameterStore& sharded, std::size_t index,
                          const torch::optim::Optimizer& optimizer, int root) {
  const World& world = sharded.world();
  const torch::Tensor& parameter = sharded.all()[index].tensor;
  StateTensors whole;
  for (const Part& part : sharded.parts_of(index)) {
    StateTensors own;
    if (world.rank() == part.rank) own = state_of(optimizer, sharded.piece_of(index));
    if (world.rank() == part.rank && part.rank != root) send_bytes(to_bytes(own), root, world);
    if (world.rank() != root) continue;
    if (part.rank != root) own = from_bytes(receive_bytes(part.rank, world));
    const auto elements = length(part.to - part.from);
    for (auto& [name, value] : own) {
      if (!is_moment(value, elements)) {
        whole[name] = value;
        continue;
      }
      c10::IValue& moment = whole[name];
      if (!moment.isTensor()) moment = torch::empty_like(parameter, value.toTensor().scalar_type());
      range_of(moment.toTensor(), part.from, part.to).copy_(value.toTensor().flatten());
    }
  }
  return whole;
}

StateTensors gather_outline(const ParameterParts& sharded, std::size_t index,
                            const torch::optim::Optimizer& optimizer, int root) {
  const World& world = sharded.world();
  const auto parts = sharded.parts_of(index);
  if (parts.empty() || (world.rank() != root && world.rank() != parts.front().rank)) return {};
  StateTensors outline;
  if (world.rank() == parts.front().rank) {
    const torch::Tensor& piece = sharded.piece_of(index);
    outline = state_of(optimizer, piece);
    for (auto& [name, value] : outline) {
      if (is_moment(value, piece.numel()))
        value = torch::empty({0}, value.toTensor().scalar_type());
    }
    if (world.rank() == root) return outline;
    send_bytes(to_bytes(outline), root, world);
    return {};
  }
  return from_bytes(receive_bytes(parts.front().rank, world));
}

StateTensors scatter_state(const ParameterStore& sharded, std::size_t index,
                           const StateTensors& whole, int root) {
  const World& world = sharded.world();
  const torch::Tensor& parameter = sharded.all()[index].tensor;
  StateTensors mine;
  for (const Part& part : sharded.parts_of(index)) {
    StateTensors its;
    if (world.rank() == root) {
      for (const auto& [name, value] : whole) {
        its[name] = value;
        if (!is_moment(value, parameter.numel())) continue;
        torch::Tensor like = torch::empty_like(parameter, value.toTensor().scalar_type());
        like.copy_(value.toTensor());  // laid out as the parameter is
        its[name] = range_of(like, part.from, part.to).clone();
      }
    }
    if (part.rank == root) {
      if (world.rank() == root) mine = its;
    } else if (world.rank() == root) {
      send_bytes(to_bytes(its), part.rank, world);
    } else if (world.rank() == part.rank) {
      mine = from_bytes(receive_bytes(root, world));
    }
  }
  const torch::Tensor& piece = sharded.piece_of(index);
  for (auto& [name, value] : mine) {
    if (!is_moment(value, piece.numel())) continue;
    const torch::Tensor laid_out = torch::empty_like(piece, value.toTensor().scalar_type());
    flat_of(laid_out).copy_(value.toTensor().flatten());
    value = laid_out;
  }
  return mine;
}

std::unique_ptr<torch::optim::OptimizerParamState> make_prototype(
    const ShardedOptimizer::Maker& make, const torch::optim::Optimizer& like) {
  torch::Tensor one = torch::zeros({1}, torch::kFloat32).set_requires_grad(true);
  one.mutable_grad() = torch::zeros({1});
  ShardedOptimizer::Pieces pieces;
  pieces.insert("prototype", one);
  const auto optimizer = make(pieces);
  // Whichever group it is in: one of them may keep what others do not.
  for (const auto& group : like.param_groups()) {
    for (auto& its : optimizer->param_groups()) {
      auto archive = archive_of(options_of(group));
      its.options().serialize(archive);
    }
    optimizer->step();
    if (!optimizer->state().empty()) return optimizer->state().begin()->second->clone();
  }
  return nullptr;
}

void copy_options(const torch::optim::Optimizer& from, torch::optim::Optimizer& to) {
  for (std::size_t i = 0; i < to.param_groups().size() && i < from.param_groups().size(); ++i) {
    auto archive = archive_of(options_of(from.param_groups()[i]));
    to.param_groups()[i].options().serialize(archive);
  }
}

void scatter_options(const torch::optim::Optimizer* from, torch::optim::Optimizer& to,
                     const World& world, int root) {
  std::int64_t groups = 0;
  if (world.rank() == root) groups = length(from->param_groups().size());
  world.broadcast(&groups, 1, DataType::int64, root);
  for (std::int64_t i = 0; i < groups; ++i) {
    const auto group = static_cast<std::size_t>(i);
    std::string bytes;
    if (world.rank() == root) bytes = options_of(from->param_groups()[group]);
    auto archive = archive_of(broadcast_text(std::move(bytes), root, world));
    if (group < to.param_groups().size()) to.param_groups()[group].options().serialize(archive);
  }
}

}  // namespace sullae
