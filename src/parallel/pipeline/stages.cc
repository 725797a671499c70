#include "parallel/pipeline/stages.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "torch/agreement.h"

namespace sullae::pipeline {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// What each rank has: the parameters' names, and their type and shape.
using Parameters = std::vector<std::map<std::string, std::string>>;

// Those ranks that have `name`.
std::vector<int> holders_of(const std::string& name, const Parameters& all) {
  std::vector<int> holders;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].contains(name)) holders.push_back(static_cast<int>(rank));
  }
  return holders;
}

void check_unique(const Parameters& all, const std::vector<std::vector<std::string>>& tied) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto& [name, kind] : all[rank]) {
      const auto [before, is_new] = seen.emplace(name, rank);
      const bool is_tied = std::ranges::any_of(
          tied, [&](const auto& group) { return std::ranges::count(group, name) > 0; });
      if (!is_new && !is_tied)
        throw InputError(
            fmt::format("Pipeline: rank {} and rank {} each have a parameter '{}': expected "
                        "stages' parameters to have names of their own, which "
                        "PipelineStage::name makes, or to be tied",
                        before->second, rank, name));
    }
  }
}

// One line each: what gather() needs to know of it.
std::string line_of(const NamedState& one) {
  const char kind = static_cast<char>(one.kind);
  if (!one.tensor.defined()) return fmt::format("{} {}", kind, one.name);
  return fmt::format("{} {} {} {}", kind, static_cast<int>(one.tensor.scalar_type()),
                     fmt::join(one.tensor.sizes(), ","), one.name);
}

// Of a parameter's: behind its kind, type and sizes.
std::string name_of(const std::string& line) {
  std::size_t at = 0;
  for (int word = 0; word < 3; ++word) at = line.find(' ', at) + 1;
  return line.substr(at);
}

NamedState announced(const std::string& line) {
  std::istringstream stream(line);
  NamedState one;
  one.kind = static_cast<NamedState::Kind>(stream.get());
  stream.get();
  if (one.kind != NamedState::Kind::module) {
    int type = 0;
    std::string sizes;
    // A number has no sizes, and two spaces after one another.
    stream >> type;
    stream.get();
    std::getline(stream, sizes, ' ');
    std::vector<std::int64_t> shape;
    std::istringstream numbers(sizes);
    for (std::string number; std::getline(numbers, number, ',');)
      shape.push_back(std::stoll(number));
    one.tensor = torch::empty(shape, static_cast<torch::ScalarType>(type));
  }
  std::getline(stream, one.name);
  return one;
}

}  // namespace

Stages::Stages(std::vector<PipelineStage> own, const World& world, const PipelineOptions& options)
    : world_(world), own_(std::move(own)), tied_names_(options.tied) {
  const bool has_parts = std::ranges::any_of(
      own_, [](const PipelineStage& stage) { return !parts_of(*stage.module).empty(); });
  std::string mine = has_parts ? "parts\n" : "whole\n";
  for (const NamedState& one : state()) {
    if (one.kind == NamedState::Kind::parameter) mine += line_of(one) + '\n';
  }
  for (const std::string& text : allgather_texts(world_, mine)) {
    all_.emplace_back();
    auto lines = lines_of(text);
    have_parts_ |= lines.front() == "parts";
    lines.erase(lines.begin());
    for (const std::string& line : lines) {
      const auto name = name_of(line);
      if (!all_.back().emplace(name, line.substr(0, line.size() - name.size())).second)
        throw InputError(
            fmt::format("Pipeline: rank {} has two parameters '{}': expected names of their own, "
                        "which PipelineStage::name makes, or one parameter of one stage",
                        all_.size() - 1, name));
    }
  }
  check_unique(all_, tied_names_);
  for (const auto& group : tied_names_) tie(group);
}

torch::Device Stages::device_of(int chunk) const {
  const auto parameters = own_[static_cast<std::size_t>(chunk)].module->parameters();
  return parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device();
}

// The ranks that have some of a group.
std::set<int> Stages::checked_holders(const std::vector<std::string>& group) const {
  std::set<int> ranks;
  std::size_t count = 0;
  std::string kind;
  for (const std::string& name : group) {
    const auto holders = holders_of(name, all_);
    if (holders.empty())
      throw InputError(fmt::format("Pipeline: tied parameter '{}': no stage has it", name));
    for (const int holder : holders) {
      const auto& its = all_[static_cast<std::size_t>(holder)].at(name);
      if (kind.empty()) kind = its;
      if (its != kind)
        throw InputError(
            fmt::format("Pipeline: tied parameters '{}' and '{}' differ in type or shape",
                        group.front(), name));
    }
    ranks.insert(holders.begin(), holders.end());
    count += holders.size();
  }
  if (count < 2)
    throw InputError(fmt::format("Pipeline: tied parameters ({}): expected two or more",
                                 fmt::join(group, ", ")));
  return ranks;
}

bool Stages::is_first_holder(const std::string& name) const {
  return holders_of(name, all_).front() == world_.rank();
}

void Stages::tie(const std::vector<std::string>& group) {
  const auto ranks = checked_holders(group);
  Tied tied;
  const std::vector<int> members(ranks.begin(), ranks.end());
  if (members.size() > 1) tied.holders = world_.process_set(members);
  const auto own = parameters();
  for (const std::string& name : group) {
    const torch::Tensor* const parameter = own.find(name);
    if (parameter == nullptr) continue;
    const auto first = std::ranges::find_if(
        own, [&](const auto& item) { return item.value().is_same(*parameter); });
    if (!tied.own.contains(first->key())) tied.own.insert(first->key(), *parameter);
  }
  tied.has_first = is_first_holder(group.front());
  if (tied.own.is_empty()) return;
  const torch::NoGradGuard guard;
  torch::Tensor start = tied.own.front().value().detach();
  if (tied.holders) {
    const int first = holders_of(group.front(), all_).front();
    const auto root = std::ranges::find(members, first) - members.begin();
    broadcast(start, static_cast<int>(root), *tied.holders);
  }
  for (std::size_t i = 1; i < tied.own.size(); ++i) torch::Tensor(tied.own[i].value()).copy_(start);
  tied_.push_back(std::move(tied));
}

std::set<std::string> Stages::tied_parameters() const {
  std::set<std::string> names;
  for (const Tied& tied : tied_) {
    for (const auto& item : tied.own) {
      if (item.value().requires_grad()) names.insert(item.key());
    }
  }
  return names;
}

void Stages::begin_step() {
  const torch::NoGradGuard guard;
  for (Tied& tied : tied_) {
    for (std::size_t i = tied.has_first ? 1 : 0; i < tied.own.size(); ++i) {
      const torch::Tensor& one = tied.own[i].value();
      if (one.grad().defined()) one.mutable_grad().zero_();
    }
  }
}

void Stages::sum_tied_gradients(const Tensors& updated) {
  const torch::NoGradGuard guard;
  for (const Tied& tied : tied_) {
    std::vector<torch::Tensor> own;
    for (const auto& item : tied.own) {
      if (const torch::Tensor* const found = updated.find(item.key())) own.push_back(*found);
    }
    if (own.empty()) continue;
    torch::Tensor sum = torch::zeros_like(own.front());
    std::int64_t are_there = 0;
    for (const torch::Tensor& one : own) {
      if (!one.grad().defined()) continue;
      sum += one.grad();
      are_there = 1;
    }
    if (tied.holders) {
      tied.holders->allreduce(&are_there, &are_there, 1, DataType::int64, ReduceOp::max);
      if (are_there != 0) allreduce(sum, ReduceOp::sum, *tied.holders);
    }
    // What nobody has one of stays as it is.
    for (const torch::Tensor& one : own) {
      if (are_there == 0 || !one.requires_grad()) continue;
      if (one.grad().defined())
        one.mutable_grad().copy_(sum);
      else
        one.mutable_grad() = sum.clone();
    }
  }
}

double Stages::squares_of(const Tensors& updated, bool is_first) const {
  const auto own = parameters();
  std::set<const void*> again;  // tensors that count elsewhere
  for (const auto& group : tied_names_) {
    for (const std::string& name : group) {
      if (const torch::Tensor* const one = own.find(name)) again.insert(one->unsafeGetTensorImpl());
    }
  }
  for (const auto& group : tied_names_) {
    if (is_first_holder(group.front())) again.erase(own[group.front()].unsafeGetTensorImpl());
  }
  std::set<std::string> elsewhere;
  for (const auto& item : own) {
    if (again.contains(item.value().unsafeGetTensorImpl())) elsewhere.insert(item.key());
  }
  std::map<std::string, ParameterPart> parts;
  for (const auto& stage : own_) {
    for (auto& [name, part] : parts_of(*stage.module)) parts[name_in(stage.name, name)] = part;
  }
  return own_squares(updated, parts, is_first, elsewhere);
}

Stages::Tensors Stages::parameters() const {
  Tensors all;
  for (const auto& stage : own_) {
    for (const auto& item : stage.module->named_parameters())
      all.insert(name_in(stage.name, item.key()), item.value());
  }
  return all;
}

std::vector<NamedState> Stages::state() const {
  std::vector<NamedState> all;
  for (const auto& stage : own_) {
    if (!stage.name.empty()) all.push_back({.kind = NamedState::Kind::module, .name = stage.name});
    for (auto& one : state_of(*stage.module)) {
      one.name = name_in(stage.name, one.name);
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::shared_ptr<torch::nn::Module> Stages::gather(int root) const {
  const auto own = state();
  std::string mine;
  for (const NamedState& one : own) mine += line_of(one) + '\n';
  const auto lines = allgather_texts(world_, mine);
  if (world_.rank() != root) {
    for (const NamedState& one : own) {
      if (one.tensor.defined()) send(one.tensor, root, 0, world_);
    }
    return nullptr;
  }
  std::vector<NamedState> all;
  std::set<std::string> there;  // what is tied, several ranks have by one name
  const auto add = [&](NamedState one) {
    if (there.insert(static_cast<char>(one.kind) + one.name).second) all.push_back(std::move(one));
  };
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == root) {
      for (const NamedState& one : own)
        add({one.kind, one.name,
             one.tensor.defined() ? one.tensor.to(torch::kCPU).clone() : torch::Tensor()});
      continue;
    }
    for (const std::string& line : lines_of(lines[static_cast<std::size_t>(rank)])) {
      NamedState one = announced(line);
      if (one.tensor.defined()) receive(one.tensor, rank, 0, world_);
      add(std::move(one));
    }
  }
  return module_of(all);
}

void Stages::load(const torch::nn::Module& whole) {
  const torch::NoGradGuard guard;
  std::map<std::string, torch::Tensor> values;
  for (auto& one : state_of(whole)) values[one.name] = one.tensor;
  auto own = state();
  std::erase_if(own, [](const NamedState& one) { return !one.tensor.defined(); });
  for (const NamedState& one : own) {
    const auto found = values.find(one.name);
    if (found == values.end())
      throw InputError(fmt::format("Pipeline: the model to load has no '{}'", one.name));
    if (found->second.sizes() != one.tensor.sizes())
      throw InputError(fmt::format("Pipeline: '{}' to load has shape [{}], expected [{}]", one.name,
                                   fmt::join(found->second.sizes(), ", "),
                                   fmt::join(one.tensor.sizes(), ", ")));
  }
  for (const NamedState& one : own) one.tensor.copy_(values.at(one.name));
}

}  // namespace sullae::pipeline
