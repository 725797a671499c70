// Rank 0 reads the file part by part, and gives each rank what is its own.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/checkpoint/source.h"
#include "parallel/flat.h"
#include "parallel/sharded_state.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "torch/archive_bytes.h"
#include "torch/broadcast_text.h"
#include "torch/checkpoint_archive.h"

namespace sullae {
namespace {

std::int64_t count_of(const std::vector<Part>& ranges) {
  std::size_t elements = 0;
  for (const Part& range : ranges) elements += range.to - range.from;
  return length(elements);
}

torch::Tensor joined(const torch::Tensor& values, const std::vector<Part>& ranges) {
  std::vector<torch::Tensor> pieces;
  for (const Part& range : ranges)
    pieces.push_back(values.narrow(0, length(range.from), length(range.to - range.from)));
  return pieces.size() == 1 ? pieces.front() : torch::cat(pieces);
}

std::string bytes_of_metadata(const CheckpointMetadata& metadata) {
  torch::serialize::OutputArchive written;
  write_metadata(written, metadata);
  return bytes_of(written);
}

CheckpointMetadata metadata_of(std::string bytes) {
  auto archive = archive_of(std::move(bytes));
  return read_metadata(archive);
}

// What the first of them was given.
void give_to_replicas(const torch::nn::Module& module, ParameterParts& parts,
                      const Sharded* sharded, const World& replicas) {
  const torch::NoGradGuard guard;
  const auto give = [&](const torch::Tensor& tensor) {
    torch::Tensor values = tensor.detach();
    broadcast(values, 0, replicas);
  };
  const bool is_first = replicas.rank() == 0;
  std::unique_ptr<torch::optim::OptimizerParamState> prototype;
  if (sharded != nullptr) {
    scatter_options(is_first ? &sharded->optimizer : nullptr, sharded->optimizer, replicas, 0);
    prototype = make_prototype(sharded->make, sharded->optimizer);
  }
  for (std::size_t i = 0; i < parts.all().size(); ++i) {
    const torch::Tensor& piece = parts.piece_of(i);
    if (!parts.is_trained(i)) give(parts.all()[i].tensor);
    if (!piece.defined()) continue;
    give(piece);
    if (!prototype) continue;
    const auto state =
        broadcast_text(is_first ? to_bytes(state_of(sharded->optimizer, piece)) : "", 0, replicas);
    if (!is_first) set_state(sharded->optimizer, piece, from_bytes(state), *prototype);
  }
  for (const ModelTensor& one : ModelTensors(module, parts).rest) give(one.tensor);
  parts.refresh();
}

class Load {
 public:
  Load(std::optional<CheckpointSource> source, ModelTensors model, ParameterParts& parts,
       const Sharded* sharded)
      : source_(std::move(source)), model_(std::move(model)), parts_(parts), sharded_(sharded) {}

  CheckpointMetadata run() {
    const torch::NoGradGuard guard;
    std::unique_ptr<torch::optim::OptimizerParamState> prototype;
    if (sharded_ != nullptr) {
      scatter_options(source_ ? &source_->optimizer() : nullptr, sharded_->optimizer, world(),
                      kCheckpointRoot);
      prototype = make_prototype(sharded_->make, sharded_->optimizer);
    }
    for (std::size_t i = 0; i < parts_.all().size(); ++i) {
      give_weights(i);
      if (sharded_ != nullptr) give_state(i, prototype.get());
    }
    for (std::size_t i = 0; i < model_.rest.size(); ++i) {
      // In host memory: a rank may have a copy there of what is on another's GPU.
      torch::Tensor own = model_.rest[i].tensor.detach();
      torch::Tensor values = own.to(torch::kCPU);
      if (source_) source_->copy_rest(i, values);
      broadcast(values, kCheckpointRoot, world());
      if (!own.is_cpu()) own.copy_(values);
    }
    parts_.refresh();
    throw_on_all(world(), own_problem_);
    const auto problem =
        broadcast_text(source_ ? source_->problem() : "", kCheckpointRoot, world());
    if (!problem.empty()) throw CheckpointError(problem);
    return give_metadata();
  }

 private:
  const World& world() const { return parts_.world(); }

  void give_weights(std::size_t parameter) {
    const torch::Tensor& tensor = parts_.all()[parameter].tensor;
    const torch::Tensor stored = source_ ? source_->weights(parameter) : torch::Tensor();
    if (!parts_.is_whole(parameter)) {
      const torch::Tensor& piece = parts_.piece_of(parameter);
      return give_parts(parameter, stored, parts_.type_of(parameter),
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
    if (!parts_.is_trained(parameter)) return;
    const torch::Tensor whole = parts_.outline_of(parameter);
    const torch::Tensor& piece = parts_.piece_of(parameter);
    StateTensors outline;
    if (source_) {
      outline = source_->state(parameter);
      for (auto& [name, value] : outline) {
        if (is_moment(value, whole.numel()))
          value = torch::empty({0}, value.toTensor().scalar_type());
      }
    }
    StateTensors own = from_bytes(broadcast_text(to_bytes(outline), kCheckpointRoot, world()));
    for (auto& [name, value] : own) {
      if (!is_moment(value, 0)) continue;
      const auto type = value.toTensor().scalar_type();
      torch::Tensor moment;
      if (piece.defined()) moment = torch::empty_like(piece, type);
      give_parts(parameter, source_ ? source_->state(parameter).at(name).toTensor() : whole, type,
                 piece.defined() ? flat_of(moment) : moment);
      if (piece.defined()) value = moment;
    }
    if (!piece.defined()) return;
    if (prototype != nullptr)
      set_state(sharded_->optimizer, piece, own, *prototype);
    else if (!own.empty())
      own_problem_ = fmt::format(
          "the checkpoint has an optimizer's state of '{}', and this one keeps none of any "
          "parameter",
          parts_.all()[parameter].name);
  }

  // Of `stored`, which is root's, each rank its parts in `type`; `own` is what this one's become. A
  // rank gets what it has of some megabytes in one message: it may be a few elements of each row.
  void give_parts(std::size_t parameter, const torch::Tensor& stored, torch::ScalarType type,
                  const torch::Tensor& own) {
    const torch::Tensor like = parts_.outline_of(parameter);
    const std::size_t step = kCheckpointMessage / c10::elementSize(type);
    const auto parts = parts_.parts_of(parameter);
    const auto elements = static_cast<std::size_t>(like.numel());
    auto next = parts.begin();
    std::int64_t at = 0;  // in `own`
    for (std::size_t from = 0; from < elements; from += step) {
      const std::size_t to = std::min(from + step, elements);
      std::map<int, std::vector<Part>> here;  // by rank
      for (auto part = next; part != parts.end() && part->from < to; ++part) {
        if (part->to > from)
          here[part->rank].push_back(
              {.from = std::max(part->from, from) - from, .to = std::min(part->to, to) - from});
      }
      while (next != parts.end() && next->to <= to) ++next;
      torch::Tensor values;
      if (source_) values = source_->range(stored, like, from, to).to(type);
      for (const auto& [rank, ranges] : here) {
        torch::Tensor into;
        if (world().rank() == rank) {
          into = own.narrow(0, at, count_of(ranges));
          at += into.numel();
        }
        hand_over(source_ ? joined(values, ranges) : values, rank, into);
      }
    }
  }

  // Root's `values`, to a rank whose `into` gets them.
  void hand_over(const torch::Tensor& values, int rank, torch::Tensor into) {
    const bool is_mine = world().rank() == rank;
    if (source_ && is_mine) {
      into.copy_(values);
    } else if (source_ || is_mine) {
      if (source_)
        send(values, rank, kCheckpointTag, world());
      else
        receive(into, kCheckpointRoot, kCheckpointTag, world());
    }
  }

  CheckpointMetadata give_metadata() {
    return metadata_of(broadcast_text(source_ ? bytes_of_metadata(source_->metadata()) : "",
                                      kCheckpointRoot, world()));
  }

  std::optional<CheckpointSource> source_;  // on root
  ModelTensors model_;
  ParameterParts& parts_;
  const Sharded* sharded_;
  std::string own_problem_;  // that others may not have
};

}  // namespace

CheckpointMetadata load_parts(const std::filesystem::path& file, torch::nn::Module& module,
                              ParameterParts& parts, const Sharded* sharded) {
  const auto load = [&] {
    ModelTensors model(module, parts);
    std::optional<CheckpointSource> source;
    on_root(parts.world(), kCheckpointRoot, [&] { source.emplace(file, model, parts, sharded); });
    return Load(std::move(source), std::move(model), parts, sharded).run();
  };
  const World* const replicas = parts.replicas();
  if (replicas == nullptr) return load();
  std::string metadata;
  on_root(*replicas, 0, [&] { metadata = bytes_of_metadata(load()); });
  give_to_replicas(module, parts, sharded, *replicas);
  return metadata_of(broadcast_text(std::move(metadata), 0, *replicas));
}

}  // namespace sullae
