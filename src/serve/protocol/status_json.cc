#include "serve/protocol/status_json.h"

#include <fmt/format.h>

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

std::string triton_type(Datatype type) {
  return type == Datatype::bytes ? "TYPE_STRING" : fmt::format("TYPE_{}", name_of(type));
}

}  // namespace

const std::vector<std::string>& server_extensions() {
  static const std::vector<std::string> extensions = {"model_repository", "model_configuration",
                                                      "statistics"};
  return extensions;
}

json server_metadata() {
  auto extensions = server_extensions();
  // Over HTTP alone.
  extensions.insert(extensions.end(), {"binary_tensor_data", "generate"});
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

json model_configuration(const std::string& name, const Model& model) {
  const bool is_batched = model.codec().is_batched();
  const auto tensors = [&](const std::vector<TensorSignature>& signatures) {
    auto list = json::array();
    for (const auto& one : signatures) {
      // Without the rows, which are implied.
      const auto first = one.shape.begin() + (is_batched && !one.shape.empty() ? 1 : 0);
      list.push_back({{"name", one.name},
                      {"data_type", triton_type(one.datatype)},
                      {"dims", std::vector<std::int64_t>(first, one.shape.end())}});
    }
    return list;
  };
  return {{"name", name},
          {"platform", model.platform()},
          {"backend", "sullae"},
          {"max_batch_size", is_batched ? model.max_batch_size() : 0},
          {"input", tensors(model.codec().inputs())},
          {"output", tensors(model.codec().outputs())}};
}

json model_statistics(const std::vector<ModelStatus>& models, const std::string& version) {
  auto list = json::array();
  for (const auto& model : models) {
    for (const auto& one : model.versions) {
      const auto number = std::to_string(one.number);
      if (!one.version || (!version.empty() && number != version)) continue;
      const auto& metrics = one.version->metrics();
      const auto duration = [](std::uint64_t count, std::uint64_t ns) -> json {
        return {{"count", count}, {"ns", ns}};
      };
      const std::uint64_t success = metrics.success;
      list.push_back({{"name", model.name},
                      {"version", number},
                      {"inference_count", metrics.rows.load()},
                      {"execution_count", metrics.executions.load()},
                      {"inference_stats",
                       {{"success", duration(success, metrics.request_ns)},
                        {"fail", duration(metrics.failure, metrics.failure_ns)},
                        {"queue", duration(success, metrics.queue_ns)},
                        {"compute_input", duration(success, metrics.input_ns)},
                        {"compute_infer", duration(success, metrics.infer_ns)},
                        {"compute_output", duration(success, metrics.output_ns)}}},
                      {"batch_stats", json::array()}});
    }
  }
  return {{"model_stats", std::move(list)}};
}

json repository_index(const std::vector<ModelStatus>& models, bool ready) {
  auto list = json::array();
  for (const auto& model : models) {
    for (const auto& version : model.versions) {
      if (ready && version.state != VersionState::ready) continue;
      list.push_back({{"name", model.name},
                      {"version", std::to_string(version.number)},
                      {"state", name_of(version.state)},
                      {"reason", version.reason}});
    }
    if (model.versions.empty() && !ready)
      list.push_back({{"name", model.name}, {"state", "UNAVAILABLE"}, {"reason", model.problem}});
  }
  return list;
}

json version_states(const ModelStatus& status) {
  auto list = json::array();
  for (auto version = status.versions.rbegin(); version != status.versions.rend(); ++version) {
    const bool ready = version->state == VersionState::ready;
    const bool loading = version->state == VersionState::loading;
    list.push_back(
        {{"version", std::to_string(version->number)},
         {"state", ready     ? "AVAILABLE"
                   : loading ? "LOADING"
                             : "END"},
         {"status",
          {{"error_code", ready || version->reason.empty() ? "OK" : "FAILED_PRECONDITION"},
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
