// Metrics of the test in JSON: "test_accuracy" beside "test_loss".
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sullae/train/objective.h"

namespace sullae::train {

inline void put_test_metrics(nlohmann::json& json, const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) json["test_" + name] = value;
}

inline std::map<std::string, double> test_metrics_in(const nlohmann::json& json) {
  static const std::string prefix = "test_";
  std::map<std::string, double> metrics;
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with(prefix) && key != "test_loss")
      metrics[key.substr(prefix.size())] = value.get<double>();
  }
  return metrics;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Metric, name, higher_is_better, in_percent)

}  // namespace sullae::train
