#include "torch/optimizer_state.h"

#include <fmt/format.h>

namespace sullae {
namespace {

std::string options_key(std::size_t group) { return fmt::format("options{}", group); }

}  // namespace

void save_optimizer(torch::serialize::OutputArchive& archive,
                    const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive state(archive.compilation_unit());
  optimizer.save(state);
  archive.write("state", state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(archive.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    archive.write(options_key(i), options);
  }
}

void load_optimizer(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive state;
  archive.read("state", state);
  optimizer.load(state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    archive.read(options_key(i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

}  // namespace sullae
