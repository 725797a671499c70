#include "data/decorators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

namespace sullae::data {
namespace {

class Concatenation final : public Dataset {
 public:
  explicit Concatenation(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      starts_.push_back(size_);
      size_ += part->size();
    }
  }
  std::size_t size() const override { return size_; }
  Example read(std::size_t i) const override {
    const std::size_t part = part_of(i);
    return parts_[part]->read(i - starts_[part]);
  }
  std::string place(std::size_t i) const override {
    const std::size_t part = part_of(i);
    return parts_[part]->place(i - starts_[part]);
  }
  std::vector<FeatureType> feature_types() const override;

 private:
  std::size_t part_of(std::size_t i) const {
    // The last that starts at or before i; empty parts start where the next does.
    return static_cast<std::size_t>(std::ranges::upper_bound(starts_, i) - starts_.begin()) - 1;
  }

  std::vector<DatasetPtr> parts_;
  std::vector<std::size_t> starts_;
  std::size_t size_ = 0;
};

// What all parts that say it agree about; texts of some are bytes in others, and floats doubles.
std::vector<FeatureType> Concatenation::feature_types() const {
  using enum FeatureType::Kind;
  const auto are_bytes = [](FeatureType::Kind kind) {
    return kind == text || kind == bytes;
  };
  const auto are_reals = [](FeatureType::Kind kind) {
    return kind == real || kind == real64;
  };
  std::map<std::string, FeatureType> all;
  std::set<std::string> unclear;
  for (const auto& part : parts_) {
    for (FeatureType& type : part->feature_types()) {
      const auto [found, is_new] = all.emplace(type.name, type);
      if (is_new) continue;
      FeatureType& common = found->second;
      common.dimensions = std::max(common.dimensions, type.dimensions);
      if (common.kind == type.kind) continue;
      if (are_reals(common.kind) && are_reals(type.kind)) {
        common.kind = real64;
      } else if (are_bytes(common.kind) && are_bytes(type.kind)) {
        common.kind = bytes;
      } else {
        unclear.insert(type.name);
      }
    }
  }
  std::vector<FeatureType> types;
  for (auto& [name, type] : all) {
    if (!unclear.contains(name)) types.push_back(std::move(type));
  }
  return types;
}

class WithLabels final : public Decorated {
 public:
  WithLabels(DatasetPtr inner, std::vector<std::string> classes)
      : Decorated(std::move(inner)), classes_(std::move(classes)) {
    for (const auto& name : classes_)
      labels_.emplace(name, static_cast<std::int64_t>(labels_.size()));
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  Example read(std::size_t i) const override {
    Example example = inner().read(i);
    const std::string* const name = example.bytes(feature::kClass);
    const auto label =
        example.bytes(feature::kText) != nullptr ? feature::kTextLabel : feature::kLabel;
    if (name == nullptr || example.label() != nullptr) return example;
    const auto found = labels_.find(*name);
    if (found == labels_.end()) {
      throw DamagedRecord(fmt::format("{}: its class is '{}', expected one of {}", place(i), *name,
                                      fmt::join(classes_, ", ")));
    }
    example.set(label, found->second);
    return example;
  }

 private:
  std::vector<std::string> classes_;
  std::unordered_map<std::string, std::int64_t> labels_;
};

class Renumbered final : public Decorated {
 public:
  Renumbered(DatasetPtr inner, std::vector<std::string> classes)
      : Decorated(std::move(inner)), classes_(std::move(classes)) {}
  const std::vector<std::string>& classes() const override { return classes_; }
  Example read(std::size_t i) const override {
    Example example = inner().read(i);
    const auto* const own = example.label();
    if (own == nullptr) return example;
    const auto& names = inner().classes();
    const bool has_name = *own >= 0 && *own < std::ssize(names);
    const auto found = has_name ? std::ranges::find(classes_, names[static_cast<std::size_t>(*own)])
                                : classes_.end();
    if (found == classes_.end())
      throw DamagedRecord(
          fmt::format("{}: its class is '{}', expected one of {}", place(i),
                      has_name ? names[static_cast<std::size_t>(*own)] : std::to_string(*own),
                      fmt::join(classes_, ", ")));
    const auto label =
        example.integer(feature::kLabel) != nullptr ? feature::kLabel : feature::kTextLabel;
    example.set(label, static_cast<std::int64_t>(found - classes_.begin()));
    return example;
  }

 private:
  std::vector<std::string> classes_;
};

class Subset final : public Decorated {
 public:
  Subset(DatasetPtr inner, std::vector<std::size_t> indices)
      : Decorated(std::move(inner)), indices_(std::move(indices)) {}
  std::size_t size() const override { return indices_.size(); }
  Example read(std::size_t i) const override { return inner().read(indices_[i]); }
  std::string place(std::size_t i) const override { return inner().place(indices_[i]); }

 private:
  std::vector<std::size_t> indices_;
};

std::size_t bytes_of(const Example& example) {
  std::size_t bytes = sizeof example;
  for (const auto& [name, feature] : example.features) {
    bytes += name.size() + sizeof(Feature);
    std::visit(
        [&](const auto& values) {
          for (const auto& value : values) {
            bytes += sizeof value;
            if constexpr (requires { value.size(); }) bytes += value.size();
          }
        },
        feature);
  }
  return bytes;
}

class Cache final : public Decorated {
 public:
  Cache(DatasetPtr set, std::size_t max_bytes)
      : Decorated(std::move(set)), max_bytes_(max_bytes), kept_(size()) {}
  Example read(std::size_t i) const override {
    {
      const std::lock_guard lock(mutex_of(i));
      if (kept_[i]) return *kept_[i];
    }
    auto example = std::make_shared<const Example>(inner().read(i));
    const std::size_t bytes = bytes_of(*example);
    if (bytes_ += bytes; bytes_ <= max_bytes_) {
      const std::lock_guard lock(mutex_of(i));
      if (kept_[i]) bytes_ -= bytes;  // another thread has read it, too
      kept_[i] = example;
    } else {
      bytes_ -= bytes;
    }
    return *example;
  }

 private:
  std::mutex& mutex_of(std::size_t i) const { return mutexes_[i % mutexes_.size()]; }

  std::size_t max_bytes_;
  mutable std::atomic<std::size_t> bytes_ = 0;
  mutable std::array<std::mutex, 64> mutexes_;  // each guards every 64th of:
  mutable std::vector<std::shared_ptr<const Example>> kept_;
};

}  // namespace

DatasetPtr concatenate(std::vector<DatasetPtr> parts) {
  return std::make_shared<Concatenation>(std::move(parts));
}

DatasetPtr renumber_labels(DatasetPtr dataset, const std::vector<std::string>& classes) {
  if (classes.empty() || dataset->classes().empty() || dataset->classes() == classes)
    return dataset;
  return std::make_shared<Renumbered>(std::move(dataset), classes);
}

DatasetPtr number_classes(DatasetPtr dataset, std::vector<std::string> classes) {
  return std::make_shared<WithLabels>(std::move(dataset), std::move(classes));
}

DatasetPtr subset(DatasetPtr dataset, std::vector<std::size_t> indices) {
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

DatasetPtr cache_in_memory(DatasetPtr dataset, std::size_t max_bytes) {
  return std::make_shared<Cache>(std::move(dataset), max_bytes);
}

}  // namespace sullae::data
