#include "data/tools/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <variant>

#include "sullae/data/image.h"

namespace sullae::data {
namespace {

constexpr std::size_t kBlock = 64;
// As Feature's alternatives.
constexpr std::array<const char*, std::variant_size_v<Feature>> kKinds = {"bytes", "float", "int64",
                                                                          "double"};

ImageSize check_image(const std::string& jpeg, bool decode) {
  if (!decode) return jpeg_size(jpeg);
  const Image image = decode_jpeg(jpeg);
  return {image.rows, image.columns};
}

void add(Inspection& sum, const Example& example, bool decode) {
  if (const auto* const jpeg = example.bytes(feature::kImage)) {
    const ImageSize size = check_image(*jpeg, decode);
    ++sum.images;
    sum.bytes += jpeg->size();
    sum.smallest_image = {std::min(sum.smallest_image[0], size.rows),
                          std::min(sum.smallest_image[1], size.columns)};
    sum.largest_image = {std::max(sum.largest_image[0], size.rows),
                         std::max(sum.largest_image[1], size.columns)};
  }
  if (const auto* const text = example.bytes(feature::kText)) sum.bytes += text->size();
  if (const auto* const label = example.label(); label != nullptr) ++sum.labels[*label];
  for (const auto& [name, values] : example.features) ++sum.features[name][kKinds[values.index()]];
  ++sum.samples;
}

void merge(Inspection& sum, const Inspection& part) {
  sum.samples += part.samples;
  sum.images += part.images;
  sum.bytes += part.bytes;
  for (const auto& [name, kinds] : part.features) {
    for (const auto& [kind, count] : kinds) sum.features[name][kind] += count;
  }
  for (const auto& [label, count] : part.labels) sum.labels[label] += count;
  for (std::size_t side = 0; side < 2; ++side) {
    sum.smallest_image[side] = std::min(sum.smallest_image[side], part.smallest_image[side]);
    sum.largest_image[side] = std::max(sum.largest_image[side], part.largest_image[side]);
  }
}

}  // namespace

Inspection inspect(const Dataset& dataset, const InspectOptions& options, DamageLog& damage,
                   const ShowProgress& show) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const auto rank = static_cast<std::size_t>(options.rank);
  const std::size_t blocks = (dataset.size() + kBlock - 1) / kBlock;
  const std::size_t first = blocks * rank / ranks;
  Inspection sum;
  std::mutex mutex;  // guards sum
  work_in_parallel(
      blocks * (rank + 1) / ranks - first, options.threads, show,
      [&](std::size_t part, std::atomic<std::size_t>& done) {
        Inspection own;
        const std::size_t begin = (first + part) * kBlock;
        for (std::size_t i = begin; i < std::min(begin + kBlock, dataset.size()); ++i, ++done) {
          try {
            const Example example = dataset.read(i);
            try {
              add(own, example, options.decode);
            } catch (const DamagedRecord& error) {
              throw DamagedRecord(fmt::format("{}: {}", dataset.place(i), error.what()));
            }
          } catch (const DamagedRecord& error) {
            damage.report(error.what());
          }
        }
        const std::lock_guard lock(mutex);
        merge(sum, own);
      });
  return sum;
}

}  // namespace sullae::data
