// A version of a model in memory: its network, and how requests become the network's input.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/model/codec.h"
#include "serve/model/config.h"
#include "serve/model/network.h"
#include "train/task.h"

namespace sullae::serve {

/// Any thread may call one object.
class Model {
 public:
  /// Loads `path`: a version's folder, with one of repository::kModelFiles, or such a file.
  /// Throws InputError or Error that says what is wrong with which file.
  Model(const std::filesystem::path& path, const ModelConfig& config);

  /// "sullae_checkpoint", "pytorch_torchscript", or as Triton calls packages of AOTInductor,
  /// "torch_aoti".
  const std::string& platform() const { return platform_; }
  const Codec& codec() const { return *codec_; }
  /// Of a language model how texts become its input; empty for others.
  const std::optional<train::Language>& language() const { return language_; }
  const ModelConfig& config() const { return config_; }
  /// Rows that may be computed together.
  std::int64_t max_batch_size() const { return max_batch_size_; }

  /// The network's outputs for each of `requests`, computed together: all or none of texts that go
  /// on, whose output are the scores of what follows. Throws Error.
  std::vector<std::vector<torch::Tensor>> run(const std::vector<const Rows*>& requests) const;
  /// What clients would get, of all together: [rows, …] each. Throws Error.
  std::vector<InferTensor> answer_together(const std::vector<const Rows*>& rows) const;
  /// One request by itself. Throws RequestError and Error.
  std::vector<InferTensor> answer(const InferRequest& request) const;

  /// Computes batches of the usual sizes, so that no client waits for what is made the first time.
  /// Throws Error where a checkpoint answers with what is no number.
  void warm_up() const;
  /// Throws Error that names the first golden request that is answered otherwise.
  void check_golden() const;

 private:
  std::vector<std::vector<torch::Tensor>> go_on(const std::vector<const Rows*>& texts) const;
  void load_checkpoint(const std::filesystem::path& file);
  void load_torchscript(const std::filesystem::path& file);
  void load_package(const std::filesystem::path& file);
  void configure(const std::filesystem::path& file, std::vector<TensorSignature> inputs);

  ModelConfig config_;
  std::string platform_;
  std::int64_t max_batch_size_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Codec> codec_;
  // Of a language model.
  std::optional<train::Language> language_;
  std::shared_ptr<train::LanguageModel> writer_;
};

}  // namespace sullae::serve
