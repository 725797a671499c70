// What an exported module takes and gives, and what config.toml says of it.
#pragma once

#include <filesystem>
#include <string>

#include "sullae/train/export.h"

namespace sullae::train {

/// Throws InputError for tensors, names, vocabularies and numbers that cannot be served.
void check_export(const TorchScriptExport& options);

/// Throws InputError where `config`, the config.toml of versions that are there, says otherwise
/// what the model takes and gives. What an operator sets there may differ.
void check_fits_config(const TorchScriptExport& options, const std::filesystem::path& config);

/// config.toml's text.
std::string config_of(const TorchScriptExport& options);

/// The tensors that the server gives to forward, and takes from it: the options' own, or what their
/// preprocessing makes.
std::vector<ServedTensor> inputs_of(const TorchScriptExport& options);
std::vector<ServedTensor> outputs_of(const TorchScriptExport& options);

inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kClassesFile = "classes.txt";

}  // namespace sullae::train
