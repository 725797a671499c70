// Rank 0 reads the file part by part, and gives each rank what is its own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "parallel/agreement.h"
#include "parallel/checkpoint/checkpoint.h"
#include "parallel/flat.h"
#include "parallel/sharded_state.h"
#include "sullae/torch.h"
#include "torch/archive_bytes.h"
#include "torch/broadcast_text.h"
#include "torch/checkpoint_archive.h"
#include "torch/lazy_archive.h"
#include "torch/optimizer_state.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

struct ModelTensor {
  std::string name;
  torch::Tensor tensor;
  bool is_buffer = false;
};

// Of the module and of units that it lacks: for each parameter of the optimizer's its name in the model, and then the rest.
struct ModelTensors {
  ModelTensors(const torch::nn::Module& module, const ParameterStore& store) {
    std::map<const void*, std::size_t> numbers;  // in `sharded`, by tensor
    for (const PlannedParameter& parameter : store.all()) {
      numbers[parameter.tensor.unsafeGetTensorImpl()] = sharded.size();
      sharded.push_back({parameter.name, parameter.tensor});
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
    for (const NamedState& other : store.others()) {
      if (!there.contains(other.tensor.unsafeGetTensorImpl()))
        rest.push_back({other.name, other.tensor, other.kind == NamedState::Kind::buffer});
    }
  }
  std::vector<ModelTensor> sharded;
  std::vector<ModelTensor> rest;
};

// The file, on root.
class Source {
 public:
  Source(const std::filesystem::path& file, const ModelTensors& model, const Sharded& sharded)
      : name_(file.string()), archive_(file) {
    for (const ModelTensor& one : model.sharded) weights_.push_back(stored(one));
    for (const ModelTensor& one : model.rest) rest_.push_back(stored(one));
    auto extra = extra_of(archive_.archive());
    metadata_ = read_metadata(extra);
    for (const auto& [name, tensor] : metadata_.tensors) archive_.fill(tensor);
    torch::serialize::InputArchive optimizer;
    if (!extra.try_read("optimizer", optimizer))
      throw InputError(fmt::format("checkpoint {}: has no optimizer state", name_));
    outline_ = make_outline(sharded, parameters_);
    try {
      load_options(optimizer, *outline_);
      read_states(optimizer);
    } catch (const InputError& error) {
      throw InputError(fmt::format("checkpoint {}: {}", name_, error.what()));
    }
  }

  const torch::optim::Optimizer& optimizer() const { return *outline_; }
  const CheckpointMetadata& metadata() const { return metadata_; }
  const torch::Tensor& weights(std::size_t parameter) const { return weights_[parameter]; }
  const StateTensors& state(std::size_t parameter) const { return states_[parameter]; }

  // Its elements [from, to) as they lie in `like`. What cannot be read is zeros, and problem() says why: others wait for them.
  torch::Tensor range(const torch::Tensor& stored, const torch::Tensor& like, std::size_t from,
                      std::size_t to) {
    torch::Tensor values = torch::empty({length(to - from)}, stored.options());
    const bool is_read = try_to([&] {
      if (stored.strides() == like.strides())
        return archive_.read(stored, from, to, values.data_ptr());
      if (!stored.is_same(last_)) {
        torch::Tensor whole =
            torch::empty_strided(stored.sizes(), stored.strides(), stored.options());
        archive_.read(stored, 0, static_cast<std::size_t>(stored.numel()), whole.data_ptr());
        laid_out_ = torch::empty_strided(like.sizes(), like.strides(), stored.options());
        laid_out_.copy_(whole);
        last_ = stored;
      }
      values.copy_(range_of(laid_out_, from, to));
    });
    return is_read ? values : values.zero_();
  }

  void copy_rest(std::size_t number, torch::Tensor& to) {
    try_to([&] {
      archive_.fill(rest_[number]);
      to.copy_(rest_[number]);
    });
  }

  // What was met first; empty for nothing.
  const std::string& problem() const { return problem_; }

 private:
  bool try_to(const std::function<void()>& what) {
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

  torch::Tensor stored(const ModelTensor& one) {
    return stored_tensor(archive_.archive(), one.name, one.is_buffer, one.tensor.sizes(), name_);
  }

  // As libtorch writes them: groups of parameters by keys, and by key what is kept of each.
  void read_states(torch::serialize::InputArchive& optimizer) {
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
      const auto& parameters = outline_->param_groups()[group].params();
      torch::serialize::InputArchive its;
      groups.read(fmt::format("param_groups/{}", group), its);
      torch::Tensor count;
      its.read("params/size", count);
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

  std::string name_;
  LazyArchive archive_;
  std::vector<torch::Tensor> weights_;  // by parameter of the optimizer's
  std::vector<torch::Tensor> rest_;
  CheckpointMetadata metadata_;
  ShardedOptimizer::Pieces parameters_;
  std::unique_ptr<torch::optim::Optimizer> outline_;
  std::vector<StateTensors> states_;
  torch::Tensor last_;  // which laid_out_ is of
  torch::Tensor laid_out_;
  std::string problem_;
};

class Load {
 public:
  Load(std::optional<Source> source, ModelTensors model, const Sharded& sharded)
      : source_(std::move(source)), model_(std::move(model)), sharded_(sharded) {}

  CheckpointMetadata run() {
    const torch::NoGradGuard guard;
    scatter_options(source_ ? &source_->optimizer() : nullptr, sharded_.optimizer, world(),
                    kCheckpointRoot);
    const auto prototype = make_prototype(sharded_.make, sharded_.optimizer);
    for (std::size_t i = 0; i < sharded_.store.all().size(); ++i) {
      give_weights(i);
      give_state(i, prototype.get());
    }
    for (std::size_t i = 0; i < model_.rest.size(); ++i) {
      torch::Tensor values = model_.rest[i].tensor.detach();
      if (source_) source_->copy_rest(i, values);
      broadcast(values, kCheckpointRoot, world());
    }
    sharded_.store.refresh();
    const auto problem =
        broadcast_text(source_ ? source_->problem() : "", kCheckpointRoot, world());
    if (!problem.empty()) throw CheckpointError(problem);
    return give_metadata();
  }

 private:
  const World& world() const { return sharded_.store.world(); }

  void give_weights(std::size_t parameter) {
    const torch::Tensor& tensor = sharded_.store.all()[parameter].tensor;
    const torch::Tensor stored = source_ ? source_->weights(parameter) : torch::Tensor();
    if (!sharded_.store.is_whole(parameter)) {
      const torch::Tensor& piece = sharded_.store.piece_of(parameter);
      return give_parts(parameter, stored, updated_type(tensor.scalar_type()),
                        piece.defined() ? flat_of(piece) : torch::Tensor());
    }
    torch::Tensor whole = flat_of(tensor);
    const std::size_t step = kCheckpointMessage / tensor.element_size();
    for (std::size_t from = 0; from < static_cast<std::size_t>(tensor.numel()); from += step) {
      const std::size_t to = std::min(from + step, static_cast<std::size_t>(tensor.numel()));
      torch::Tensor values = whole.narrow(0, length(from), length(to - from));
      if (source_) values.copy_(source_->range(stored, tensor, from, to));
      broadcast(values, kCheckpointRoot, world());
    }
  }

  void give_state(std::size_t parameter, const torch::optim::OptimizerParamState* prototype) {
    const torch::Tensor& tensor = sharded_.store.all()[parameter].tensor;
    const torch::Tensor& piece = sharded_.store.piece_of(parameter);
    StateTensors outline;
    if (source_) {
      outline = source_->state(parameter);
      for (auto& [name, value] : outline) {
        if (is_moment(value, tensor.numel()))
          value = torch::empty({0}, value.toTensor().scalar_type());
      }
    }
    StateTensors own = from_bytes(broadcast_text(to_bytes(outline), kCheckpointRoot, world()));
    for (auto& [name, value] : own) {
      if (!is_moment(value, 0)) continue;
      const auto type = value.toTensor().scalar_type();
      torch::Tensor moment;
      if (piece.defined()) moment = torch::empty_like(piece, type);
      give_parts(parameter, source_ ? source_->state(parameter).at(name).toTensor() : tensor, type,
                 piece.defined() ? flat_of(moment) : moment);
      if (piece.defined()) value = moment;
    }
    if (prototype == nullptr && !own.empty())
      throw InputError(
          "the checkpoint has an optimizer's state, and this one keeps none of its first group's "
          "parameters");
    if (prototype != nullptr && piece.defined())
      set_state(sharded_.optimizer, piece, own, *prototype);
  }

  // Of `stored`, which is root's, each rank its part in `type`; `own` is what this one's becomes.
  void give_parts(std::size_t parameter, const torch::Tensor& stored, torch::ScalarType type,
                  const torch::Tensor& own) {
    const torch::Tensor& like = sharded_.store.all()[parameter].tensor;
    const DataType travels = data_type(type, "a parameter's state");
    const std::size_t step = kCheckpointMessage / c10::elementSize(type);
    for (const Part& part : sharded_.store.parts_of(parameter)) {
      for (std::size_t from = part.from; from < part.to; from += step) {
        const std::size_t to = std::min(from + step, part.to);
        torch::Tensor values;
        if (source_) values = source_->range(stored, like, from, to).to(type);
        if (world().rank() == part.rank) {
          torch::Tensor into = own.narrow(0, length(from - part.from), length(to - from));
          if (source_) {
            into.copy_(values);
          } else {
            world().receive(into.data_ptr(), to - from, travels, kCheckpointRoot, kCheckpointTag);
          }
        } else if (source_) {
          world().send(values.data_ptr(), to - from, travels, part.rank, kCheckpointTag);
        }
      }
    }
  }

  CheckpointMetadata give_metadata() {
    std::string bytes;
    if (source_) {
      torch::serialize::OutputArchive written;
      write_metadata(written, source_->metadata());
      bytes = bytes_of(written);
    }
    auto archive = archive_of(broadcast_text(std::move(bytes), kCheckpointRoot, world()));
    return read_metadata(archive);
  }

  std::optional<Source> source_;  // on root
  ModelTensors model_;
  const Sharded& sharded_;
};

}  // namespace

CheckpointMetadata load_parts(const std::filesystem::path& file, torch::nn::Module& module,
                              const Sharded& sharded) {
  ModelTensors model(module, sharded.store);
  std::optional<Source> source;
  on_root(sharded.store.world(), kCheckpointRoot, [&] { source.emplace(file, model, sharded); });
  return Load(std::move(source), std::move(model), sharded).run();
}

}  // namespace sullae
