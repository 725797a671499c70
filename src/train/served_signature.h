// What an exported module takes and gives, and what config.toml says of it.
#pragma once

#include <string>

#include "sullae/train/export.h"

namespace sullae::train {

/// Throws InputError for tensors, names, vocabularies and numbers that cannot be served.
void check_export(const TorchScriptExport& options);

/// config.toml's text.
std::string config_of(const TorchScriptExport& options);

/// The tensors that the server gives to forward, and takes from it: the options' own, or what their preprocessing makes.
std::vector<ServedTensor> inputs_of(const TorchScriptExport& options);
std::vector<ServedTensor> outputs_of(const TorchScriptExport& options);

inline constexpr const char* kVocabularyFile = "vocabulary.txt";
inline constexpr const char* kClassesFile = "classes.txt";

}  // namespace sullae::train
