// config.toml of a model: how it is served, and what a TorchScript module does not say of itself.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "online/config.h"
#include "serve/tensors.h"
#include "train/description.h"

namespace sullae::serve {

/// A request with the answer that every version must give to it.
struct GoldenRequest {
  /// As in the "instances" of a predict request.
  nlohmann::json instance;
  /// What of its prediction is compared.
  nlohmann::json expect;
  /// Between numbers.
  double tolerance = 1e-3;
};

/// Which versions are served at once.
struct VersionPolicy {
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  bool is_all() const { return latest == kAll; }
  /// Whether there is a list, and the version is not in it.
  bool leaves_out(std::int64_t version) const {
    return !versions.empty() && std::ranges::find(versions, version) == versions.end();
  }

  /// The newest so many; 0 where `versions` lists them.
  std::size_t latest = 1;
  std::vector<std::int64_t> versions;
};

/// What of a version is preprocessing, in a config.toml beside a TorchScript module. Sullae's own
/// checkpoints say it themselves.
enum class Preprocessing { none, text, image };

struct ModelConfig {
  std::int64_t max_batch_size = 64;
  std::chrono::microseconds max_queue_delay{0};
  std::int64_t max_queue_size = 1024;
  std::chrono::milliseconds timeout{10000};
  /// Memory, on the device, for what the model has seen of texts that go on.
  std::int64_t kv_cache_megabytes = 1024;
  /// "cpu", "cuda" or "cuda:N".
  std::string device = "cpu";
  /// 0: one a processor, or on a GPU two, of which one prepares while the other computes.
  int instances = 0;
  VersionPolicy version_policy;
  /// The share of the requests that a new version gets at first; below 100 it is a canary until it
  /// is promoted.
  int new_version_percent = 100;
  std::vector<GoldenRequest> golden;
  online::OnlineConfig online;

  Preprocessing preprocessing = Preprocessing::none;
  /// Of TorchScript: what the module takes and returns; empty is found from the module.
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;
  /// Of TorchScript with text or image preprocessing. Files are looked for in the version's folder,
  /// and then in the model's.
  std::string vocabulary_file;
  std::string classes_file;
  train::ModelDescription description;
  /// Whether there was a config.toml.
  bool written = false;
};

/// Reads `file`; without one, all is as by default. Throws InputError that names the file and the
/// line.
ModelConfig read_model_config(const std::filesystem::path& file);

}  // namespace sullae::serve
