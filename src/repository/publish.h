// Models as versions of a model repository, which `sullae serve` serves:
// `<repository>/<model>/<n>`.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace sullae::repository {

/// The file of a version that holds a Sullae checkpoint, TorchScript, or a package that AOTInductor
/// has compiled.
inline constexpr const char* kModelFile = "model.ckpt";
inline constexpr const char* kScriptFile = "model.pt";
inline constexpr const char* kPackageFile = "model.pt2";
inline constexpr std::array kModelFiles = {kModelFile, kScriptFile, kPackageFile};
/// As messages list them.
inline constexpr const char* kModelFileNames = "model.ckpt, model.pt or model.pt2";
/// What tells how a model is served, beside its versions.
inline constexpr const char* kModelConfig = "config.toml";

/// Whether a model may be called so: what is safe in a path, and in a metric's label.
bool is_model_name(const std::string& name);
inline constexpr const char* kModelNames =
    "expected a name that does not begin with a dot, without / \\ : \" and line breaks";
/// Throws InputError for another.
void check_model_name(const std::string& name);

/// Makes version `<repository>/<name>/<n>`, n being one more than the largest number there, of what
/// `write` puts into a folder, and a config.toml with `config` where there is none. The version
/// appears whole or not at all. A repository may be in a store, where two that publish a model at
/// the same time would take the same number. Returns its folder. Throws Error, and InputError for a
/// name that cannot be a folder's.
std::filesystem::path publish_version(
    const std::filesystem::path& repository, const std::string& name, const std::string& config,
    const std::function<void(const std::filesystem::path& folder)>& write);

/// Takes version `number` out of the folder of its model, whole, and then from the disk. Where that
/// fails, a warning says why.
void remove_version(const std::filesystem::path& model, std::int64_t number);

/// The number that a folder's name is, from 1; 0 for other names.
std::int64_t version_number(const std::string& name);

}  // namespace sullae::repository
