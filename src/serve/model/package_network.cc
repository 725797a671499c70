#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "serve/model/network.h"
#include "sullae/error.h"
#include "torch/compat/package_loader.h"

namespace sullae::serve {

namespace fs = std::filesystem;

#if SULLAE_HAS_PACKAGES
namespace {

// A package computes with any sizes, beyond the memory of its inputs too, unless this asks it to look, which it reads when it
// computes first. Set while the program has one thread.
[[maybe_unused]] const bool kInputsAreLookedAt =
    ::setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", /*overwrite=*/0) == 0;

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

class PackageNetwork final : public Network {
 public:
  PackageNetwork(const fs::path& file, const ModelConfig& config, int threads)
      : device_(device_of(config)),
        takes_batches_(config.max_batch_size > 1),
        loader_(file.string(), "model", /*run_single_threaded=*/false,
                static_cast<std::size_t>(threads), device_.is_cpu() ? -1 : device_.index()) {
    const auto metadata = loader_.get_metadata();
    const auto of = [&](const char* key) {
      const auto found = metadata.find(key);
      return found == metadata.end() ? std::string() : found->second;
    };
    const auto device = of("AOTI_DEVICE_KEY");
    if (!device.empty() && device != torch::DeviceTypeName(device_.type(), /*lower_case=*/true))
      throw InputError(
          fmt::format("was compiled for the device '{}', and config.toml says device = \"{}\"",
                      device, config.device));
    if (device_.is_cpu()) expect_instructions(of("AOTI_CPU_ISA"));
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
  // torch.export compiles for two rows and more unless it is told otherwise, and cannot always be: then one is computed twice.
  std::vector<torch::Tensor> compute(const std::vector<torch::Tensor>& inputs) const {
    const bool is_one_row = takes_batches_ && std::ranges::all_of(inputs, [](const auto& input) {
                              return input.dim() > 0 && input.size(0) == 1;
                            });
    if (is_one_row && wants_two_rows_) return compute_twice(inputs);
    try {
      return loader_.run(inputs);
    } catch (const std::exception&) {
      if (!is_one_row) throw;
      auto outputs = compute_twice(inputs);  // throws why, where it is not for the one row
      wants_two_rows_ = true;
      return outputs;
    }
  }
  std::vector<torch::Tensor> compute_twice(const std::vector<torch::Tensor>& inputs) const {
    std::vector<torch::Tensor> twice;
    for (const auto& input : inputs) twice.push_back(torch::cat({input, input}));
    auto outputs = loader_.run(twice);
    for (auto& output : outputs) {
      if (output.dim() > 0 && output.size(0) == 2) output = output.narrow(0, 0, 1);
    }
    return outputs;
  }

  torch::Device device_;
  bool takes_batches_;
  mutable std::atomic<bool> wants_two_rows_{false};
  mutable torch::inductor::AOTIModelPackageLoader loader_;
};

}  // namespace

std::unique_ptr<Network> make_package_network(const fs::path& file, const ModelConfig& config,
                                              int threads) {
  try {
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
