// Data sets made of others.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sullae/data/dataset.h"

namespace sullae::data {

/// What it does not change of a set is that set's.
class Decorated : public Dataset {
 public:
  std::size_t size() const override { return inner_->size(); }
  std::string place(std::size_t i) const override { return inner_->place(i); }
  const std::vector<std::string>& classes() const override { return inner_->classes(); }
  std::vector<FeatureType> feature_types() const override { return inner_->feature_types(); }

 protected:
  explicit Decorated(DatasetPtr inner) : inner_(std::move(inner)) {}
  const Dataset& inner() const { return *inner_; }

 private:
  DatasetPtr inner_;
};

/// One after the other.
DatasetPtr concatenate(std::vector<DatasetPtr> parts);

/// Gives labels that are numbers of the set's own classes() the numbers that these have in
/// `classes`. Reading throws DamagedRecord for a class that is not among them. Leaves a set that
/// names none, or the same, as it is.
DatasetPtr renumber_labels(DatasetPtr dataset, const std::vector<std::string>& classes);

/// Adds the label (feature::kTextLabel of texts, kLabel of others) to examples that name their
/// class (kClass) and have none: its place in `classes`. Reading throws InputError for a class that
/// is not among them.
DatasetPtr number_classes(DatasetPtr dataset, std::vector<std::string> classes);

}  // namespace sullae::data
