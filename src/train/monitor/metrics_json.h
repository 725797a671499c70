// Metrics of the test in JSON: "test_accuracy" beside "test_loss".
#pragma once

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sullae/train/objective.h"

namespace sullae::train {

/// JSON knows no number that is none: it is written as null. Reads such back; throws
/// json::exception.
inline nlohmann::json parse_measured(auto&& from) {
  nlohmann::json json = nlohmann::json::parse(from);
  const auto restore = [](const auto& self, nlohmann::json& value) -> void {
    if (value.is_null()) value = std::numeric_limits<double>::quiet_NaN();
    for (auto& part : value) {
      if (value.is_structured()) self(self, part);
    }
  };
  restore(restore, json);
  return json;
}

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
