#include "train/batches/images.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace sullae::train {
namespace {

class ImageStream final : public BatchStream {
 public:
  ImageStream(const data::Dataset& dataset, const data::ImageTransform& transform,
              data::DamageLog& damage, BatchPlan plan, const ImageStreamOptions& options)
      : dataset_(dataset),
        transform_(transform),
        damage_(damage),
        plan_(std::move(plan)),
        options_(options),
        prefetcher_(plan_.size(),
                    {.make = [this](std::size_t index) { return make(index); },
                     .fill =
                         [this](Batch& batch, std::size_t index, std::size_t slot) {
                           fill(batch, index, slot);
                         }},
                    options.prefetch) {}

  std::optional<Batch> next() override { return prefetcher_.next(); }
  double seconds_waited() const override { return prefetcher_.seconds_waited(); }

 private:
  std::pair<Batch, std::size_t> make(std::size_t index) const {
    const auto count = static_cast<std::int64_t>(plan_[index].size());
    const auto side = static_cast<std::int64_t>(transform_.options().size);
    const auto images = torch::empty({count, 3, side, side},
                                     torch::TensorOptions().pinned_memory(options_.pinned_memory));
    return {Batch{{images}, torch::empty({count}, torch::kInt64)}, plan_[index].size()};
  }

  void fill(Batch& batch, std::size_t index, std::size_t slot) {
    const std::size_t first = plan_[index][slot];
    for (std::size_t tried = 0; tried < dataset_.size(); ++tried) {
      if (take(batch, (first + tried) % dataset_.size(), slot)) return;
    }
    throw InputError("every record of the data set is damaged");
  }

  bool take(Batch& batch, std::size_t sample, std::size_t slot) {
    const std::size_t pixels = 3 * transform_.options().size * transform_.options().size;
    try {
      const data::Example example = dataset_.read(sample);
      const std::int64_t label = label_of(example, sample);
      try {
        transform_.apply(example, data::Random(options_.seed, options_.epoch, sample),
                         batch.inputs[0].data_ptr<float>() + slot * pixels);
      } catch (const data::DamagedRecord& error) {
        throw data::DamagedRecord(fmt::format("{}: {}", dataset_.place(sample), error.what()));
      }
      batch.labels.data_ptr<std::int64_t>()[slot] = label;
      return true;
    } catch (const data::DamagedRecord& error) {
      damage_.report(error.what());
      return false;
    }
  }

  std::int64_t label_of(const data::Example& example, std::size_t sample) const {
    const auto* const label = example.label();
    if (label == nullptr) {
      throw data::DamagedRecord(fmt::format("{}: has no label, expected the feature '{}'",
                                            dataset_.place(sample), data::feature::kLabel));
    }
    if (*label < 0 || *label >= options_.classes) {
      throw data::DamagedRecord(fmt::format("{}: its label is {}, expected 0 to {}",
                                            dataset_.place(sample), *label, options_.classes - 1));
    }
    return *label;
  }

  const data::Dataset& dataset_;
  const data::ImageTransform& transform_;
  data::DamageLog& damage_;
  BatchPlan plan_;
  ImageStreamOptions options_;
  data::Prefetcher<Batch> prefetcher_;  // last: its threads use what is above
};

}  // namespace

std::unique_ptr<BatchStream> stream_images(const data::Dataset& dataset,
                                           const data::ImageTransform& transform,
                                           data::DamageLog& damage, BatchPlan plan,
                                           const ImageStreamOptions& options) {
  return std::make_unique<ImageStream>(dataset, transform, damage, std::move(plan), options);
}

}  // namespace sullae::train
