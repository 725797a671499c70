#include "serve/protocol/status_json.h"

#include "base/version.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

json signatures(const std::vector<TensorSignature>& tensors) {
  auto list = json::array();
  for (const auto& tensor : tensors) {
    list.push_back(
        {{"name", tensor.name}, {"datatype", name_of(tensor.datatype)}, {"shape", tensor.shape}});
  }
  return list;
}

json metrics_of(const Version& version) {
  const auto& metrics = version.metrics();
  auto buckets = json::array();
  for (const auto& [bound, count] : metrics.latency.buckets()) buckets.push_back({bound, count});
  return {{"success", metrics.success.load()}, {"failure", metrics.failure.load()},
          {"rows", metrics.rows.load()},       {"batches", metrics.executions.load()},
          {"waiting", version.waiting()},      {"latency_buckets", std::move(buckets)}};
}

}  // namespace

const std::vector<std::string>& server_extensions() {
  static const std::vector<std::string> extensions = {"binary_tensor_data", "model_repository"};
  return extensions;
}

json server_metadata() {
  auto extensions = server_extensions();
  extensions.emplace_back("generate");  // over HTTP alone
  return {{"name", "sullae"}, {"version", kVersion}, {"extensions", std::move(extensions)}};
}

json model_metadata(const ModelStatus& status, const Model& model) {
  auto versions = json::array();
  for (const auto& version : status.versions) {
    if (version.state == VersionState::ready) versions.push_back(std::to_string(version.number));
  }
  return {{"name", status.name},
          {"versions", std::move(versions)},
          {"platform", model.platform()},
          {"inputs", signatures(model.codec().inputs())},
          {"outputs", signatures(model.codec().outputs())}};
}

json repository_index(const std::vector<ModelStatus>& models) {
  auto list = json::array();
  for (const auto& model : models) {
    for (const auto& version : model.versions) {
      list.push_back({{"name", model.name},
                      {"version", std::to_string(version.number)},
                      {"state", name_of(version.state)},
                      {"reason", version.reason}});
    }
    if (model.versions.empty())
      list.push_back({{"name", model.name}, {"state", "UNAVAILABLE"}, {"reason", model.problem}});
  }
  return list;
}

json version_states(const ModelStatus& status) {
  auto list = json::array();
  for (auto version = status.versions.rbegin(); version != status.versions.rend(); ++version) {
    const bool ready = version->state == VersionState::ready;
    const bool loading = version->state == VersionState::loading;
    list.push_back({{"version", std::to_string(version->number)},
                    {"state", ready     ? "AVAILABLE"
                              : loading ? "LOADING"
                                        : "END"},
                    {"status",
                     {{"error_code", version->reason.empty() ? "OK" : "FAILED_PRECONDITION"},
                      {"error_message", version->reason}}}});
  }
  return {{"model_version_status", std::move(list)}};
}

json overview(const std::vector<ModelStatus>& models) {
  auto list = json::array();
  for (const auto& model : models) {
    auto versions = json::array();
    auto labels = json::array();
    for (const auto& version : model.versions) {
      json entry = {{"version", version.number},
                    {"state", name_of(version.state)},
                    {"reason", version.reason}};
      if (version.version) {
        entry["platform"] = version.version->model().platform();
        entry["inputs"] = signatures(version.version->model().codec().inputs());
        entry["outputs"] = signatures(version.version->model().codec().outputs());
        entry["metrics"] = metrics_of(*version.version);
        if (version.number == model.serving) labels = version.version->model().codec().labels();
      }
      versions.push_back(std::move(entry));
    }
    list.push_back({{"name", model.name},
                    {"serving", model.serving},
                    {"canary", model.canary},
                    {"canary_percent", model.canary_percent},
                    {"problem", model.problem},
                    {"labels", std::move(labels)},
                    {"versions", std::move(versions)}});
  }
  return {{"models", std::move(list)}};
}

}  // namespace sullae::serve
