#include "torch/optimizer_state.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "sullae/error.h"
#include "torch/archive_bytes.h"

namespace sullae {
namespace {

std::string options_key(std::size_t group) { return fmt::format("options{}", group); }

// The names of a group's options, by which kinds of optimizers are told apart.
std::set<std::string> names_of(torch::serialize::InputArchive& options) {
  const auto names = options.keys();
  return {names.begin(), names.end()};
}

std::set<std::string> names_of(const torch::optim::OptimizerParamGroup& group) {
  torch::serialize::OutputArchive written;
  group.options().serialize(written);
  auto options = archive_of(bytes_of(written));
  return names_of(options);
}

void check_fits(torch::serialize::InputArchive& archive, const torch::optim::Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  std::size_t saved = 0;
  torch::serialize::InputArchive options;
  for (; archive.try_read(options_key(saved), options); ++saved) {
    if (saved >= groups.size()) continue;
    const auto theirs = names_of(options);
    const auto own = names_of(groups[saved]);
    if (theirs == own) continue;
    throw InputError(
        fmt::format("the optimizer's state is of another kind of optimizer, one with the options "
                    "{}; this one has {}",
                    fmt::join(theirs, ", "), fmt::join(own, ", ")));
  }
  if (saved != groups.size())
    throw InputError(
        fmt::format("the optimizer's state has {} groups of parameters, this one has {}", saved,
                    groups.size()));
}

}  // namespace

torch::Device device_of(const torch::optim::Optimizer& optimizer) {
  std::optional<torch::Device> device;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (device && *device != parameter.device())
        throw InputError(
            fmt::format("the optimizer's parameters are on {} and {}: expected one device",
                        device->str(), parameter.device().str()));
      device = parameter.device();
    }
  }
  return device.value_or(torch::kCPU);
}

void save_optimizer(torch::serialize::OutputArchive& archive,
                    const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive state(archive.compilation_unit());
  optimizer.save(state);
  archive.write("state", state);
  save_options(archive, optimizer);
}

void save_options(torch::serialize::OutputArchive& archive,
                  const torch::optim::Optimizer& optimizer) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(options_key(i), options);
  }
}

void load_optimizer(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer) {
  check_fits(archive, optimizer);
  torch::serialize::InputArchive state;
  archive.read("state", state);
  move_tensors(state, device_of(optimizer));
  // libtorch adds to what is there: parameters that have no state in the archive would keep theirs.
  auto before = std::exchange(optimizer.state(), {});
  try {
    optimizer.load(state);
  } catch (const c10::Error& error) {
    optimizer.state() = std::move(before);
    throw InputError(
        fmt::format("the optimizer's state does not fit: {}", error.what_without_backtrace()));
  }
  // Adagrad makes all states when it is made, also of parameters without elements, and cannot step
  // without.
  if (dynamic_cast<torch::optim::Adagrad*>(&optimizer) != nullptr) {
    for (auto& [parameter, its] : before) {
      if (optimizer.state().count(parameter) == 0) optimizer.state()[parameter] = std::move(its);
    }
  }
  load_options(archive, optimizer);
}

void load_options(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer) {
  check_fits(archive, optimizer);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(options_key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace sullae
