#include <torch/serialize.h>

#include <algorithm>
#include <utility>

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

void DistributedSampler::set_epoch(std::size_t epoch) {
  *epoch_ = {.number = epoch, .sets = epoch_->sets + 1};
  make_indices();
}

void DistributedSampler::make_indices() {
  const auto order = data::epoch_order(dataset_size_,
                                       {.shuffle = options_.shuffle,
                                        .seed = options_.seed,
                                        .shuffle_buffer = options_.shuffle_buffer},
                                       epoch_->number);
  made_for_ = *epoch_;
  const auto ranks = static_cast<std::size_t>(size_);
  std::size_t share =
      options_.drop_last ? order.size() / ranks : (order.size() + ranks - 1) / ranks;
  // Whole rounds of blocks, then a last round of smaller but equal blocks.
  indices_.clear();
  indices_.reserve(share);
  for (std::size_t begin = 0; share > 0; begin += options_.block * ranks) {
    const std::size_t block = std::min(options_.block, share);
    for (std::size_t i = 0; i < block; ++i) {
      const std::size_t at = begin + static_cast<std::size_t>(rank_) * block + i;
      indices_.push_back(order[at % order.size()]);
    }
    share -= block;
  }
  position_ = 0;
}

void DistributedSampler::reset(detail::OptionalSize new_size) {
  if (new_size.has_value()) dataset_size_ = *new_size;
  // Unless one was set meanwhile, or loaded, of which the rest is to come.
  if (std::exchange(is_loaded_, false)) return;
  if (position_ > 0 && made_for_.sets == epoch_->sets) ++epoch_->number;
  make_indices();
}

detail::OptionalBatch DistributedSampler::next(std::size_t batch_size) {
  if (position_ >= indices_.size()) return {};
  const std::size_t end = std::min(position_ + batch_size, indices_.size());
  std::vector<std::size_t> batch(indices_.begin() + static_cast<std::ptrdiff_t>(position_),
                                 indices_.begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(static_cast<std::int64_t>(made_for_.number)),
                /*is_buffer=*/true);
  archive.write("position", torch::tensor(static_cast<std::int64_t>(position_)),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch = torch::empty(1, torch::kInt64);
  torch::Tensor position = torch::empty(1, torch::kInt64);
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("position", position, /*is_buffer=*/true);
  set_epoch(static_cast<std::size_t>(epoch.item<std::int64_t>()));
  position_ = static_cast<std::size_t>(position.item<std::int64_t>());
  is_loaded_ = true;
}

}  // namespace sullae
