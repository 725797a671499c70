// The settings of a run, as text.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace sullae::train {

/// "batch-size" and "60", of a configuration in TOML; nothing where it is none: programs of users'
/// own may say what they like.
std::optional<std::map<std::string, std::string>> settings_of(const std::string& configuration);

/// What says where files are and what is told, and nothing of how a run trains.
void leave_out_places(std::map<std::string, std::string>& settings);

/// How a run trains otherwise than the one before it: "lr 0.1 (was 0.001), epochs 4 (was 2)"; empty
/// where it does not, or one of them says nothing.
std::string changed_settings(const std::string& before, const std::string& now);

}  // namespace sullae::train
