// Data sets made of others.
#pragma once

#include <string>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

/// One after the other.
DatasetPtr concatenate(std::vector<DatasetPtr> parts);

/// Gives labels that are numbers of the set's own classes() the numbers that these have in `classes`. Reading throws DamagedRecord for a class
/// that is not among them. Leaves a set that names none, or the same, as it is.
DatasetPtr renumber_labels(DatasetPtr dataset, const std::vector<std::string>& classes);

/// Adds the label (feature::kTextLabel of texts, kLabel of others) to examples that name their class
/// (kClass) and have none: its place in `classes`. Reading throws InputError for a class that is not
/// among them.
DatasetPtr number_classes(DatasetPtr dataset, std::vector<std::string> classes);

}  // namespace sullae::data
