// The WebDataset layout: files of a tar archive that share a name up to its first dot are one
// sample, and what follows the dot says what they hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sullae/data/example.h"

namespace sullae::data {

struct WebDatasetMember {
  std::string extension;  ///< empty: follows from the other members
  std::string content;
};

/// How a feature is stored; empty where the layout has no extension for it.
std::optional<WebDatasetMember> webdataset_member(std::string_view name, const Feature& feature);

/// Adds the feature that a member with this extension holds; others are ignored, as WebDataset's
/// users expect. Throws DamagedRecord for a label that is no number.
void add_webdataset_member(Example& example, std::string_view extension, std::string content);

/// Whether samples take their label from a member with this extension.
bool is_webdataset_label(std::string_view extension);

}  // namespace sullae::data
