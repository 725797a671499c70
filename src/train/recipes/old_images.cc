#include "train/recipes/old_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "data/decorators.h"
#include "train/replay.h"

namespace sullae::train {
namespace {

constexpr std::size_t kMostOld = 50'000;

class AddedImages final : public data::Dataset {
 public:
  explicit AddedImages(std::vector<data::Example> images) : images_(std::move(images)) {}
  std::size_t size() const override { return images_.size(); }
  data::Example read(std::size_t i) const override { return images_[i]; }
  std::string place(std::size_t i) const override { return fmt::format("added sample {}", i); }

 private:
  std::vector<data::Example> images_;
};

}  // namespace

std::vector<data::Example> label_images(const std::vector<AddedSample>& added,
                                        const ModelDescription& description) {
  std::vector<data::Example> images;
  for (const AddedSample& sample : added) {
    images.emplace_back().set(data::feature::kImage, sample.input);
    images.back().set(data::feature::kLabel, label_of(sample, description));
  }
  return images;
}

OldImages choose_old(const data::Dataset& dataset, const std::vector<data::Example>& added,
                     const ModelDescription& description, data::DamageLog& damage,
                     std::uint64_t seed) {
  std::unordered_set<std::string_view> replaced;
  for (const auto& image : added) replaced.insert(*image.bytes(data::feature::kImage));
  const auto classes = description.integer("classes");
  OldImages old;
  old.by_class.resize(static_cast<std::size_t>(classes));
  auto numbers = draw(dataset.size(), kMostOld, seed);
  std::ranges::sort(numbers);
  for (const std::size_t number : numbers) {
    try {
      const data::Example example = dataset.read(number);
      const auto* const image = example.bytes(data::feature::kImage);
      if (image != nullptr && replaced.contains(*image)) continue;
      const auto* const label = example.label();
      if (label == nullptr || *label < 0 || *label >= classes)
        throw InputError(fmt::format(
            "{}: has {}, and the model has {} classes", dataset.place(number),
            label == nullptr ? "no label" : fmt::format("a label {}", *label), classes));
      old.by_class[static_cast<std::size_t>(*label)].push_back(old.samples.size());
      old.samples.push_back(number);
    } catch (const data::DamagedRecord& error) {
      damage.meet(error.what());
    }
  }
  return old;
}

data::DatasetPtr append(data::DatasetPtr old, const std::vector<data::Example>& added) {
  return data::concatenate({std::move(old), std::make_shared<AddedImages>(added)});
}

}  // namespace sullae::train
