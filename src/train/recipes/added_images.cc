#include "train/recipes/added_images.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/decorators.h"
#include "train/replay.h"

namespace sullae::train {
namespace {

constexpr std::size_t kMostOld = 50'000;

class InMemory final : public data::Dataset {
 public:
  InMemory(const std::vector<AddedSample>& added, const ModelDescription& description) {
    for (const AddedSample& sample : added) {
      images_.emplace_back().set(data::feature::kImage, sample.input);
      images_.back().set(data::feature::kLabel, label_of(sample, description));
    }
  }
  std::size_t size() const override { return images_.size(); }
  data::Example read(std::size_t i) const override { return images_[i]; }
  std::string place(std::size_t i) const override { return fmt::format("added sample {}", i); }

 private:
  std::vector<data::Example> images_;
};

}  // namespace

AddedImages::AddedImages(const std::vector<AddedSample>& added, const ModelDescription& description)
    : classes_(description.integer("classes")),
      dataset_(std::make_shared<InMemory>(added, description)) {
  for (const AddedSample& sample : added) files_.insert(sample.input);
}

ExtendedImages AddedImages::behind(const data::DatasetPtr& old, data::DamageLog& damage,
                                   std::uint64_t seed) const {
  ExtendedImages extended;
  extended.old_by_class.resize(static_cast<std::size_t>(classes_));
  auto drawn = draw(old->size(), kMostOld, seed);
  std::ranges::sort(drawn);
  std::vector<std::size_t> kept;
  for (const std::size_t number : drawn) {
    try {
      const data::Example example = old->read(number);
      const auto* const image = example.bytes(data::feature::kImage);
      if (image != nullptr && files_.contains(*image)) continue;
      const auto* const label = example.label();
      if (label == nullptr)
        throw InputError(fmt::format("{}: has no label, and the model has {} classes",
                                     old->place(number), classes_));
      check_label(*label, classes_, old->place(number));
      extended.old_by_class[static_cast<std::size_t>(*label)].push_back(kept.size());
      kept.push_back(number);
    } catch (const data::DamagedRecord& error) {
      damage.report(error.what());
    }
  }
  extended.old = kept.size();
  extended.dataset = data::concatenate({data::subset(old, std::move(kept)), dataset_});
  return extended;
}

}  // namespace sullae::train
