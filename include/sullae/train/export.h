#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace sullae {

/// A tensor that a served model takes or gives.
struct ServedTensor {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  /// -1: any size. The first is the batch, unless the model takes none.
  std::vector<std::int64_t> shape;
};

/// Texts, which the server cuts into words and numbers:
/// forward(words: int64 [batch, time], padded with 0; lengths: int64 [batch]) gives scores, [batch,
/// classes].
struct ServedTexts {
  /// Of what is between spaces. The first word is number 2; 1 is any other.
  std::vector<std::string> vocabulary;
  /// Of a text; the others are left out.
  int max_words = 64;
  /// See data::normalise_english().
  bool normalise = false;
};

/// Images, which the server decodes (JPEG), resizes and normalises:
/// forward(pixels: float [batch, channels, size, size]) gives scores, [batch, classes].
struct ServedImages {
  int size = 224;
  /// 3, or 1: grey.
  int channels = 3;
  /// The part of the image's smaller side that is looked at, in its middle.
  double centre_share = 0.875;
  /// Of values from 0 to 1; one number a channel, or one for all.
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.229, 0.224, 0.225};
};

/// Where a module or package goes, and what it takes and gives.
struct TorchScriptExport {
  /// The model repository, which is made where it is missing, and the model's name in it.
  std::filesystem::path repository;
  std::string name;
  /// In the order of forward's arguments, and of what it returns: a tensor, or a tuple of tensors.
  /// None where there is preprocessing, which knows them.
  std::vector<ServedTensor> inputs;
  std::vector<ServedTensor> outputs;
  /// Rows that are computed together; 0: the model takes no batches.
  int max_batch_size = 64;
  std::variant<std::monostate, ServedTexts, ServedImages> preprocessing = {};
  /// With preprocessing: the classes' names. Without them their numbers are answered.
  std::vector<std::string> classes = {};
};

/// Writes `module` as the next version of a model in a repository,
/// `<repository>/<name>/<n>/model.pt`, with a config.toml that says how it is served where there is
/// none yet: `sullae serve` serves it. The version appears whole or not at all. Returns its folder.
///
/// Before anything is written forward runs, on plain values, with a batch of one and one of three
/// (and 2 for other sizes that may be any), so that a shape that was baked in is found here. Throws
/// InputError where it fails, or gives other tensors than `outputs`, and for a name that cannot be
/// a folder's; Error where files cannot be written. Any thread; the module must not change
/// meanwhile.
std::filesystem::path export_torchscript(const torch::jit::Module& module,
                                         const TorchScriptExport& options);

/// The same for a module of C++, whose forward libtorch cannot trace or compile.
///
/// `source` is TorchScript: the method forward(self, …), and others that it calls. Parameters and
/// buffers have the names that they have in `module`, with `_` for dots
/// (self.encoder_layers_0_weight); what the source does not do, as dropout, is not done. See
/// https://pytorch.org/docs/stable/jit_language_reference.html. Throws InputError for a source that
/// does not compile, too.
std::filesystem::path export_torchscript(const torch::nn::Module& module, const std::string& source,
                                         const TorchScriptExport& options);

/// The same for a package that AOTInductor has compiled (Python's
/// torch._inductor.aoti_compile_and_package), which is copied to
/// `<repository>/<name>/<n>/model.pt2`. It is not run here: libtorch of Python has, which made it,
/// and `sullae serve` of libtorch 2.8 or later will. Throws InputError where `package` is no file.
std::filesystem::path export_package(const std::filesystem::path& package,
                                     const TorchScriptExport& options);

}  // namespace sullae
