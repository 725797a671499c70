#include "data/tar/webdataset.h"

#include <fmt/format.h>

#include "base/number.h"
#include "data/format/format.h"

namespace sullae::data {

std::optional<WebDatasetMember> webdataset_member(std::string_view name, const Feature& feature) {
  const auto* const bytes = std::get_if<Values<std::string>>(&feature);
  const auto* const integers = std::get_if<Values<std::int64_t>>(&feature);
  if (bytes != nullptr && bytes->size() == 1) {
    if (name == feature::kImage) return WebDatasetMember{"jpg", bytes->front()};
    if (name == feature::kText) return WebDatasetMember{"txt", bytes->front()};
    if (name == feature::kClass) return WebDatasetMember{"class.txt", bytes->front()};
    if (name == feature::kFileName) return WebDatasetMember{};
  }
  if (integers != nullptr && integers->size() == 1) {
    if (name == feature::kLabel || name == feature::kTextLabel)
      return WebDatasetMember{"cls", std::to_string(integers->front())};
  }
  return std::nullopt;
}

bool is_webdataset_label(std::string_view extension) { return extension == "cls"; }

void add_webdataset_member(Example& example, std::string_view extension, std::string content) {
  if (is_jpeg_name(fmt::format(".{}", extension))) {
    example.set(feature::kImage, std::move(content));
  } else if (extension == "txt") {
    example.set(feature::kText, std::move(content));
  } else if (extension == "class.txt") {
    example.set(feature::kClass, std::move(content));
  } else if (is_webdataset_label(extension)) {
    while (content.ends_with('\n') || content.ends_with('\r')) content.pop_back();
    const auto label = number_in<std::int64_t>(content).value_or(-1);
    if (label < 0)
      throw DamagedRecord(fmt::format("its label is '{}', expected a number from 0", content));
    example.set(feature::kLabel, label);
  }
}

}  // namespace sullae::data
