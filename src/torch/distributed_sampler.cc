#include <torch/serialize.h>

#include <algorithm>
#include <span>

#include "sullae/data/order.h"
#include "sullae/torch.h"

namespace sullae {
DistributedSampler::DistributedSampler(std::size_t dataset_size, DistributedSamplerOptions options,
                                       const World& world)
    : DistributedSampler(dataset_size, world.rank(), world.size(), options) {}

DistributedSampler::DistributedSampler(std::size_t dataset_size, int rank, int size,
                                       DistributedSamplerOptions options)
    : dataset_size_(dataset_size), rank_(rank), size_(size), options_(options) {
  if (size < 1 || rank < 0 || rank >= size)
    throw InputError("DistributedSampler: expected 0 <= rank < size");
  if (options.block < 1) throw InputError("DistributedSampler: expected a block of at least 1");
  make_indices();
}

void DistributedSampler::set_epoch(std::size_t epoch, std::size_t taken) {
  *epoch_ = {.number = epoch, .taken = taken, .sets = epoch_->sets + 1};
  make_indices();
}

void DistributedSampler::make_indices() {
  const auto order = data::epoch_order(dataset_size_,
                                       {.shuffle = options_.shuffle,
                                        .seed = options_.seed,
                                        .shuffle_buffer = options_.shuffle_buffer},
                                       epoch_->number);
  made_for_ = *epoch_;
  const std::span left = std::span(order).subspan(std::min(epoch_->taken, order.size()));
  const auto ranks = static_cast<std::size_t>(size_);
  std::size_t share = options_.drop_last ? left.size() / ranks : (left.size() + ranks - 1) / ranks;
  // Whole rounds of blocks, then a last round of smaller but equal blocks.
  indices_.clear();
  indices_.reserve(share);
  for (std::size_t begin = 0; share > 0; begin += options_.block * ranks) {
    const std::size_t block = std::min(options_.block, share);
    for (std::size_t i = 0; i < block; ++i) {
      const std::size_t at = begin + static_cast<std::size_t>(rank_) * block + i;
      indices_.push_back(left[at % left.size()]);
    }
    share -= block;
  }
  position_ = 0;
}

void DistributedSampler::reset(detail::OptionalSize new_size) {
  const bool is_same = made_for_.sets == epoch_->sets;  // none was set meanwhile
  const bool is_resized = new_size.has_value() && *new_size != dataset_size_;
  // The rest of what was loaded is to come.
  if (is_loaded_ && is_same && !is_resized) return;
  is_loaded_ = false;
  if (is_resized) dataset_size_ = *new_size;
  if (position_ > 0 && is_same) *epoch_ = {.number = epoch_->number + 1, .sets = epoch_->sets};
  make_indices();
}

detail::OptionalBatch DistributedSampler::next(std::size_t batch_size) {
  is_loaded_ = false;
  if (position_ >= indices_.size()) return {};
  const std::size_t end = std::min(position_ + batch_size, indices_.size());
  std::vector<std::size_t> batch(indices_.begin() + static_cast<std::ptrdiff_t>(position_),
                                 indices_.begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const auto write = [&](const char* name, std::size_t value) {
    archive.write(name, torch::tensor(static_cast<std::int64_t>(value)), /*is_buffer=*/true);
  };
  write("epoch", made_for_.number);
  write("taken", made_for_.taken);
  write("position", position_);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor value = torch::empty(1, torch::kInt64);
  const auto read = [&](const char* name) {
    archive.read(name, value, /*is_buffer=*/true);
    return static_cast<std::size_t>(value.item<std::int64_t>());
  };
  const std::size_t epoch = read("epoch");
  const bool has_taken = archive.try_read("taken", value, /*is_buffer=*/true);  // 1.0 wrote none
  set_epoch(epoch, has_taken ? static_cast<std::size_t>(value.item<std::int64_t>()) : 0);
  position_ = read("position");
  is_loaded_ = true;
}

}  // namespace sullae
