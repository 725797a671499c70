#include "parallel/pipeline/stages.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "parallel/agreement.h"
#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"

namespace sullae::pipeline {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The first rank that has `name`; -1 for none.
int holder_of(const std::string& name, const std::vector<std::vector<std::string>>& names) {
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    if (std::ranges::count(names[rank], name) > 0) return static_cast<int>(rank);
  }
  return -1;
}

void check_unique(const std::vector<std::vector<std::string>>& names) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    for (const std::string& name : names[rank]) {
      const auto [before, is_new] = seen.emplace(name, rank);
      if (!is_new)
        throw InputError(
            fmt::format("Pipeline: rank {} and rank {} each have a parameter '{}': expected "
                        "stages' parameters to "
                        "have names of their own; PipelineStage::name makes them",
                        before->second, rank, name));
    }
  }
}

std::string full_name(const PipelineStage& stage, const std::string& name) {
  return stage.name.empty() ? name : stage.name + '.' + name;
}

// One line each: what gather() needs to know of it.
std::string line_of(const NamedState& one) {
  const char kind = static_cast<char>(one.kind);
  if (!one.tensor.defined()) return fmt::format("{} {}", kind, one.name);
  return fmt::format("{} {} {} {}", kind, static_cast<int>(one.tensor.scalar_type()),
                     fmt::join(one.tensor.sizes(), ","), one.name);
}

// Of a parameter's: behind its kind, type and sizes.
std::string name_in(const std::string& line) {
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
  for (const std::string& text : texts_of_all(world_, mine)) {
    names_.emplace_back();
    auto lines = lines_of(text);
    has_parts_ |= lines.front() == "parts";
    lines.erase(lines.begin());
    for (const std::string& line : lines) {
      names_.back().push_back(name_in(line));
      kinds_[names_.back().back()] = line.substr(0, line.size() - names_.back().back().size());
    }
  }
  check_unique(names_);
  for (const auto& group : tied_names_) tie(group);
}

torch::Device Stages::device_of(int chunk) const {
  const auto parameters = own_[static_cast<std::size_t>(chunk)].module->parameters();
  return parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device();
}

void Stages::check_alike(const std::vector<std::string>& group) const {
  for (const std::string& name : group) {
    if (kinds_.at(name) != kinds_.at(group.front()))
      throw InputError(fmt::format(
          "Pipeline: tied parameters '{}' and '{}' differ in type or shape", group.front(), name));
  }
}

void Stages::tie(const std::vector<std::string>& group) {
  std::set<int> ranks;
  for (const std::string& name : group) {
    const int holder = holder_of(name, names_);
    if (holder < 0)
      throw InputError(fmt::format("Pipeline: tied parameter '{}': no stage has it", name));
    ranks.insert(holder);
  }
  if (group.size() < 2)
    throw InputError(fmt::format("Pipeline: tied parameters ({}): expected two or more",
                                 fmt::join(group, ", ")));
  check_alike(group);
  Tied tied;
  const std::vector<int> members(ranks.begin(), ranks.end());
  if (members.size() > 1) tied.holders = world_.process_set(members);
  const auto own = parameters();
  for (const std::string& name : group) {
    if (!own.contains(name)) continue;
    const torch::Tensor& parameter = own[name];
    const bool is_new = std::ranges::none_of(
        tied.own, [&](const torch::Tensor& other) { return other.is_same(parameter); });
    if (is_new) tied.own.push_back(parameter);
  }
  tied.has_first = own.contains(group.front());
  if (tied.own.empty()) return;
  const torch::NoGradGuard guard;
  torch::Tensor start = tied.own.front().detach();
  if (tied.holders) {
    const int first = holder_of(group.front(), names_);
    const auto root = std::ranges::find(members, first) - members.begin();
    broadcast(start, static_cast<int>(root), *tied.holders);
  }
  for (torch::Tensor& other : tied.own) {
    if (!other.is_same(tied.own.front())) other.copy_(start);
  }
  tied_.push_back(std::move(tied));
}

void Stages::begin_step() {
  const torch::NoGradGuard guard;
  for (Tied& tied : tied_) {
    for (std::size_t i = tied.has_first ? 1 : 0; i < tied.own.size(); ++i) {
      if (tied.own[i].grad().defined()) tied.own[i].mutable_grad().zero_();
    }
  }
}

void Stages::sum_tied_gradients() {
  const torch::NoGradGuard guard;
  for (Tied& tied : tied_) {
    torch::Tensor sum = torch::zeros_like(tied.own.front());
    for (const torch::Tensor& one : tied.own) {
      if (one.grad().defined()) sum += one.grad();
    }
    if (tied.holders) allreduce(sum, ReduceOp::sum, *tied.holders);
    for (torch::Tensor& one : tied.own) {
      if (one.grad().defined())
        one.mutable_grad().copy_(sum);
      else
        one.mutable_grad() = sum.clone();
    }
  }
}

double Stages::clip(double most, const World* tensor) {
  if (tensor == nullptr && has_parts_)
    throw InputError(
        "Pipeline: clip_grad_norm() of stages with tensor parallel layers: expected their world, "
        "too");
  std::set<std::string> again;
  for (const auto& group : tied_names_) again.insert(group.begin() + 1, group.end());
  double squares = 0;
  for (const auto& stage : own_) {
    std::set<std::string> elsewhere;
    for (const auto& item : stage.module->named_parameters()) {
      if (again.contains(full_name(stage, item.key()))) elsewhere.insert(item.key());
    }
    squares += own_squares(stage.module->named_parameters(), parts_of(*stage.module),
                           tensor == nullptr || tensor->rank() == 0, elsewhere);
  }
  if (tensor != nullptr) tensor->allreduce(&squares, &squares, 1, DataType::float64);
  world_.allreduce(&squares, &squares, 1, DataType::float64);
  const double norm = std::sqrt(squares);
  for (const auto& stage : own_) scale_to_norm(stage.module->named_parameters(), norm, most);
  return norm;
}

torch::OrderedDict<std::string, torch::Tensor> Stages::parameters() const {
  torch::OrderedDict<std::string, torch::Tensor> all;
  for (const auto& stage : own_) {
    for (const auto& item : stage.module->named_parameters())
      all.insert(full_name(stage, item.key()), item.value());
  }
  return all;
}

std::vector<NamedState> Stages::state() const {
  std::vector<NamedState> all;
  for (const auto& stage : own_) {
    if (!stage.name.empty()) all.push_back({.kind = NamedState::Kind::module, .name = stage.name});
    for (auto& one : state_of(*stage.module)) {
      one.name = full_name(stage, one.name);
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::shared_ptr<torch::nn::Module> Stages::gather(int root) const {
  const auto own = state();
  std::string mine;
  for (const NamedState& one : own) mine += line_of(one) + '\n';
  const auto lines = texts_of_all(world_, mine);
  if (world_.rank() != root) {
    for (const NamedState& one : own) {
      if (one.tensor.defined()) send(one.tensor, root, 0, world_);
    }
    return nullptr;
  }
  std::vector<NamedState> all;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (rank == root) {
      for (const NamedState& one : own)
        all.push_back(
            {one.kind, one.name,
             one.tensor.defined() ? one.tensor.to(torch::kCPU).clone() : torch::Tensor()});
      continue;
    }
    for (const std::string& line : lines_of(lines[static_cast<std::size_t>(rank)])) {
      NamedState one = announced(line);
      if (one.tensor.defined()) receive(one.tensor, rank, 0, world_);
      all.push_back(std::move(one));
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
