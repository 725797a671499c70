#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "serve/model/network.h"
#include "sullae/error.h"
#include "torch/compat/package_loader.h"

namespace sullae::serve {

namespace fs = std::filesystem;

#if SULLAE_HAS_PACKAGES
namespace {

// A package computes with any sizes, beyond the memory of its inputs too, unless this asks it to
// look, which it reads when it computes first. Set while the program has one thread.
[[maybe_unused]] const bool kInputsAreLookedAt =
    ::setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", /*overwrite=*/1) == 0;

// Its instructions would end the server. As torch writes them, by words.
void expect_instructions(const std::string& wanted) {
#if defined(__x86_64__)
  const auto wants = [&](const char* name) {
    return fmt::format(" {} ", wanted).find(fmt::format(" {} ", name)) != std::string::npos;
  };
  const bool has_all = (!wants("AVX2") || __builtin_cpu_supports("avx2") != 0) &&
                       (!wants("AVX512") || __builtin_cpu_supports("avx512f") != 0) &&
                       (!wants("AVX512_VNNI") || __builtin_cpu_supports("avx512vnni") != 0);
  if (!has_all)
    throw InputError(
        fmt::format("was compiled for processors with {}, and this one is another: "
                    "expected one that is compiled on such a machine",
                    wanted));
#else
  (void)wanted;
#endif
}

// What sullae.serve.export() writes down of a package's inputs: what is outside of it libtorch
// refuses, too, and keeps its memory for ever. Each size is a number, or [a name, the least, the
// most or 0]; those of one name are the same.
class Sizes {
 public:
  // Of a package of another's making there is nothing.
  Sizes(const std::string& written, const ModelConfig& config) {
    if (!written.empty())
      inputs_ = nlohmann::json::parse(written, nullptr, /*allow_exceptions=*/false);
    for (const auto& input : config.inputs) names_.push_back(input.name);
  }

  bool is_known() const { return inputs_.is_array() && !inputs_.empty(); }
  bool wants_two_rows() const {
    return is_known() && inputs_[0].size() > 0 && inputs_[0][0].is_array() && inputs_[0][0][1] > 1;
  }

  // Throws Error.
  void check(const std::vector<torch::Tensor>& inputs) const {
    if (!is_known()) return;
    std::map<std::string, std::int64_t> named;
    for (std::size_t k = 0; k < inputs.size() && k < inputs_.size(); ++k) {
      const auto shape = inputs[k].sizes();
      if (shape.size() != inputs_[k].size()) fail(k, 0, "another number of sizes");
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto& size = inputs_[k][i];
        if (size.is_number()) {
          if (shape[i] != size) fail(k, i, fmt::format("{}, got {}", size.dump(), shape[i]));
          continue;
        }
        const std::int64_t most = size[2];
        if (shape[i] < size[1] || (most > 0 && shape[i] > most))
          fail(k, i,
               fmt::format("{} to {}, got {}", size[1].dump(),
                           most > 0 ? std::to_string(most) : "any", shape[i]));
        const auto [same, is_new] = named.emplace(size[0], shape[i]);
        if (!is_new && same->second != shape[i])
          fail(k, i, fmt::format("{}, as of another input, got {}", same->second, shape[i]));
      }
    }
  }

 private:
  [[noreturn]] void fail(std::size_t input, std::size_t size, const std::string& what) const {
    throw Error(fmt::format("size {} of input '{}': expected {}", size,
                            input < names_.size() ? names_[input] : std::to_string(input), what));
  }

  nlohmann::json inputs_;
  std::vector<std::string> names_;
};

std::string value_of(const std::unordered_map<std::string, std::string>& metadata,
                     const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

// What it is for, before any of its code runs.
void expect_fitting(const std::unordered_map<std::string, std::string>& metadata,
                    torch::Device device, const ModelConfig& config) {
  const auto compiled_for = value_of(metadata, "AOTI_DEVICE_KEY");
  if (!compiled_for.empty() &&
      compiled_for != torch::DeviceTypeName(device.type(), /*lower_case=*/true))
    throw InputError(
        fmt::format("was compiled for the device '{}', and config.toml says device = \"{}\"",
                    compiled_for, config.device));
  if (device.is_cpu()) expect_instructions(value_of(metadata, "AOTI_CPU_ISA"));
}

// Later libtorches read it without loading the rest.
template <class Loader>
void look_first(const fs::path& file, torch::Device device, const ModelConfig& config) {
  if constexpr (requires { Loader::load_metadata_from_package("", ""); })
    expect_fitting(Loader::load_metadata_from_package(file.string(), "model"), device, config);
}

class PackageNetwork final : public Network {
 public:
  PackageNetwork(const fs::path& file, const ModelConfig& config, int threads)
      : device_(device_of(config)),
        takes_batches_(config.max_batch_size > 1),
        loader_(file.string(), "model", /*run_single_threaded=*/false,
                static_cast<std::size_t>(threads), device_.is_cpu() ? -1 : device_.index()) {
    const auto metadata = loader_.get_metadata();
    expect_fitting(metadata, device_, config);
    sizes_.emplace(value_of(metadata, "sullae_sizes"), config);
    wants_two_rows_ = sizes_->wants_two_rows();
  }

  std::vector<torch::Tensor> run(std::vector<torch::jit::IValue> inputs) const override {
    const c10::InferenceMode guard;
    std::vector<torch::Tensor> tensors;
    std::vector<torch::Tensor> outputs;
    try {
      for (const auto& input : inputs) tensors.push_back(input.toTensor().to(device_).contiguous());
      outputs = compute(tensors);
      for (auto& output : outputs) output = output.to(torch::kCPU);
    } catch (const c10::Error& error) {
      refuse_computing(error.what_without_backtrace());
    } catch (const std::runtime_error& error) {
      refuse_computing(error.what());
    }
    return outputs;
  }

 private:
  // torch.export compiles for two rows and more unless it is told otherwise, and cannot always be:
  // then one is computed twice.
  std::vector<torch::Tensor> compute(const std::vector<torch::Tensor>& inputs) const {
    const bool is_one_row = takes_batches_ && std::ranges::all_of(inputs, [](const auto& input) {
                              return input.dim() > 0 && input.size(0) == 1;
                            });
    if (is_one_row && wants_two_rows_) return compute_twice(inputs);
    try {
      return compute_once(inputs);
    } catch (const std::exception&) {
      if (!is_one_row || sizes_->is_known()) throw;
      auto outputs = compute_twice(inputs);  // throws why, where it is not for the one row
      wants_two_rows_ = true;
      return outputs;
    }
  }
  std::vector<torch::Tensor> compute_once(const std::vector<torch::Tensor>& inputs) const {
    sizes_->check(inputs);
    return loader_.run(inputs);
  }
  std::vector<torch::Tensor> compute_twice(const std::vector<torch::Tensor>& inputs) const {
    std::vector<torch::Tensor> twice;
    for (const auto& input : inputs) twice.push_back(torch::cat({input, input}));
    auto outputs = compute_once(twice);
    for (auto& output : outputs) {
      if (output.dim() > 0 && output.size(0) == 2) output = output.narrow(0, 0, 1);
    }
    return outputs;
  }

  torch::Device device_;
  bool takes_batches_;
  std::optional<Sizes> sizes_;
  mutable std::atomic<bool> wants_two_rows_{false};
  mutable torch::inductor::AOTIModelPackageLoader loader_;
};

}  // namespace

std::unique_ptr<Network> make_package_network(const fs::path& file, const ModelConfig& config,
                                              int threads) {
  try {
    look_first<torch::inductor::AOTIModelPackageLoader>(file, device_of(config), config);
    return std::make_unique<PackageNetwork>(file, config, threads);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  } catch (const c10::Error& error) {
    throw InputError(fmt::format("{}: is no package of AOTInductor that libtorch {} can load: {}",
                                 file.string(), TORCH_VERSION, error.what_without_backtrace()));
  } catch (const std::runtime_error& error) {
    throw InputError(fmt::format("{}: is no package of AOTInductor that libtorch {} can load: {}",
                                 file.string(), TORCH_VERSION, error.what()));
  }
}
#else
std::unique_ptr<Network> make_package_network(const fs::path& file, const ModelConfig&, int) {
  throw InputError(
      fmt::format("{}: packages of AOTInductor need libtorch 2.8 or later, and this build has {}: "
                  "expected TorchScript, or the `sullae` of Sullae's Python package",
                  file.string(), TORCH_VERSION));
}
#endif

}  // namespace sullae::serve
