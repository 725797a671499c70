#include "transport/tf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_message.h"
#include "sullae/error.h"

namespace sullae {
namespace {

TfConfig read_config(const nlohmann::json& said) {
  const auto& cluster = said.at("cluster");
  const auto type = said.at("task").at("type").get<std::string>();
  const auto index = said.at("task").at("index").get<std::size_t>();
  const auto listed = [&](const char* role) {
    return cluster.contains(role) ? cluster.at(role).get<std::vector<std::string>>()
                                  : std::vector<std::string>();
  };
  TfConfig config;
  config.servers = listed("ps");
  bool is_there = type == "evaluator";
  if (is_there) config.task = TfConfig::Task::evaluator;
  if (type == "ps" && index < config.servers.size()) {
    config.task = TfConfig::Task::parameter_server;
    config.index = static_cast<int>(index);
    is_there = true;
  }
  for (const char* role : {"chief", "master", "worker"}) {
    const auto hosts = listed(role);
    if (type == role && index < hosts.size()) {
      config.index = static_cast<int>(config.ranks.size() + index);
      is_there = true;
    }
    config.ranks.insert(config.ranks.end(), hosts.begin(), hosts.end());
  }
  for (const auto* addresses : {&config.ranks, &config.servers}) {
    for (const std::string& address : *addresses) {
      if (address.find(':') == std::string::npos)
        throw InputError(fmt::format("TF_CONFIG: address '{}': expected host:port", address));
    }
  }
  if (!is_there) {
    throw InputError(fmt::format(
        "TF_CONFIG: task {} {} is not in the cluster: expected a chief, worker or ps that it "
        "lists, or an evaluator",
        type, index));
  }
  return config;
}

}  // namespace

std::optional<TfConfig> tf_config(const Environment& environment) {
  const auto text = environment("TF_CONFIG");
  if (!text || environment("SULLAE_RANK")) return std::nullopt;
  try {
    return read_config(nlohmann::json::parse(*text));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(
        fmt::format("TF_CONFIG is not what TensorFlow documents: {}", json_message(error)));
  }
}

}  // namespace sullae
