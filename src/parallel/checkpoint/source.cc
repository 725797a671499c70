#include "parallel/checkpoint/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <map>
#include <set>
#include <utility>

#include "parallel/flat.h"
#include "sullae/error.h"
#include "torch/checkpoint_archive.h"
#include "torch/optimizer_state.h"

namespace sullae {

ModelTensors::ModelTensors(const torch::nn::Module& module, const ParameterParts& parts) {
  std::map<const void*, std::size_t> numbers;  // in `sharded`, by tensor
  for (const PlannedParameter& parameter : parts.all()) {
    numbers[parameter.tensor.unsafeGetTensorImpl()] = sharded.size();
    sharded.push_back({parameter.name, parts.outline_of(sharded.size())});
  }
  std::set<const void*> there;
  for_each_tensor(module,
                  [&](const std::string& name, const torch::Tensor& tensor, bool is_buffer) {
                    there.insert(tensor.unsafeGetTensorImpl());
                    const auto found = numbers.find(tensor.unsafeGetTensorImpl());
                    if (found == numbers.end()) {
                      rest.push_back({name, tensor, is_buffer});
                    } else {
                      sharded[found->second].name = name;
                    }
                  });
  for (const NamedState& other : parts.others()) {
    if (!there.contains(other.tensor.unsafeGetTensorImpl()))
      rest.push_back({other.name, other.tensor, other.kind == NamedState::Kind::buffer});
  }
}

CheckpointSource::CheckpointSource(const std::filesystem::path& file, const ModelTensors& model,
                                   const ParameterParts& parts, const Sharded* sharded)
    : name_(file.string()), archive_(file) {
  for (const ModelTensor& one : model.sharded) weights_.push_back(stored(one));
  for (const ModelTensor& one : model.rest) rest_.push_back(stored(one));
  auto extra = extra_of(archive_.archive());
  metadata_ = read_metadata(extra);
  for (const auto& [name, tensor] : metadata_.tensors) archive_.fill(tensor);
  if (sharded != nullptr) read_optimizer(extra, parts, *sharded);
}

torch::Tensor CheckpointSource::range(const torch::Tensor& stored, const torch::Tensor& like,
                                      std::size_t from, std::size_t to) {
  torch::Tensor values = torch::empty({length(to - from)}, stored.options());
  const bool is_read = try_to([&] {
    if (stored.strides() == like.strides())
      return archive_.read(stored, from, to, values.data_ptr());
    if (!stored.is_same(last_)) {
      laid_out_ = torch::empty_strided(like.sizes(), like.strides(), stored.options());
      laid_out_.copy_(whole(stored));
      last_ = stored;
    }
    values.copy_(range_of(laid_out_, from, to));
  });
  return is_read ? values : values.zero_();
}

// Views of something larger are saved with their gaps.
torch::Tensor CheckpointSource::whole(const torch::Tensor& stored) {
  std::int64_t span = stored.numel() == 0 ? 0 : 1;
  for (std::int64_t i = 0; span > 0 && i < stored.dim(); ++i)
    span += (stored.size(i) - 1) * stored.stride(i);
  const torch::Tensor memory = torch::empty({span}, stored.options());
  archive_.read(stored, 0, static_cast<std::size_t>(span), memory.data_ptr());
  return memory.as_strided(stored.sizes(), stored.strides());
}

void CheckpointSource::copy_rest(std::size_t number, torch::Tensor& to) {
  try_to([&] {
    archive_.fill(rest_[number]);
    to.copy_(rest_[number]);
  });
}

bool CheckpointSource::try_to(const std::function<void()>& what) {
  if (!problem_.empty()) return false;
  try {
    what();
    return true;
  } catch (const Error& error) {
    problem_ = error.what();
  } catch (const c10::Error& error) {
    problem_ = fmt::format("checkpoint {}: {}", name_, error.what_without_backtrace());
  }
  return false;
}

torch::Tensor CheckpointSource::stored(const ModelTensor& one) {
  return stored_tensor(archive_.archive(), one.name, one.is_buffer, one.tensor.sizes(), name_);
}

void CheckpointSource::read_optimizer(torch::serialize::InputArchive& extra,
                                      const ParameterParts& parts, const Sharded& sharded) {
  torch::serialize::InputArchive optimizer;
  if (!extra.try_read("optimizer", optimizer))
    throw InputError(fmt::format("checkpoint {}: has no optimizer state", name_));
  outline_ = make_outline(parts, sharded.make, parameters_);
  try {
    load_options(optimizer, *outline_);
    read_states(optimizer);
  } catch (const InputError& error) {
    throw InputError(fmt::format("checkpoint {}: {}", name_, error.what()));
  }
}

// As libtorch writes them: groups of parameters by keys, and by key what is kept of each.
void CheckpointSource::read_states(torch::serialize::InputArchive& optimizer) {
  torch::serialize::InputArchive written;
  torch::serialize::InputArchive states;
  torch::serialize::InputArchive groups;
  optimizer.read("state", written);
  written.read("state", states);
  written.read("param_groups", groups);
  const auto listed = states.keys();
  const std::set<std::string> keys(listed.begin(), listed.end());
  std::map<const void*, StateTensors> found;
  for (std::size_t group = 0; group < outline_->param_groups().size(); ++group) {
    auto parameters = outline_->param_groups()[group].params();
    torch::serialize::InputArchive its;
    groups.read(fmt::format("param_groups/{}", group), its);
    torch::Tensor count;
    its.read("params/size", count);
    // Of an optimizer that was given what is trained alone; earlier versions of this one listed no
    // more, either.
    if (count.item<std::int64_t>() < length(parameters.size()))
      std::erase_if(parameters, [](const torch::Tensor& one) { return !one.requires_grad(); });
    if (count.item<std::int64_t>() != length(parameters.size()))
      throw InputError(
          fmt::format("the optimizer's state does not fit: group {} has {} parameters, this one "
                      "has {}",
                      group, count.item<std::int64_t>(), parameters.size()));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      c10::IValue key;
      its.read(fmt::format("params/{}", i), key);
      if (!keys.contains(key.toStringRef())) continue;
      torch::serialize::InputArchive state;
      states.read(key.toStringRef(), state);
      StateTensors& tensors = found[parameters[i].unsafeGetTensorImpl()];
      for (const auto& name : state.keys()) {
        c10::IValue& value = tensors[name];
        state.read(name, value);
        if (!value.isTensor() || value.toTensor().numel() == 1 ||
            value.toTensor().sizes() == parameters[i].sizes())
          continue;
        throw InputError(
            fmt::format("the optimizer's state does not fit: parameter {} of group {} is {}, and "
                        "its {} is {}",
                        i, group, fmt::join(parameters[i].sizes(), "x"), name,
                        fmt::join(value.toTensor().sizes(), "x")));
      }
    }
  }
  for (const auto& item : parameters_)
    states_.push_back(std::move(found[item.value().unsafeGetTensorImpl()]));
}

}  // namespace sullae
