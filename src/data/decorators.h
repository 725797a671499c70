// Data sets made of others.
#pragma once

#include <string>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

/// One after the other.
DatasetPtr concatenate(std::vector<DatasetPtr> parts);

/// Adds the label (feature::kTextLabel of texts, kLabel of others) to examples that name their class
/// (kClass) and have none: its place in `classes`. Reading throws InputError for a class that is not
/// among them.
DatasetPtr number_classes(DatasetPtr dataset, std::vector<std::string> classes);

}  // namespace sullae::data
