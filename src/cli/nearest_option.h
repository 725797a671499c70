// What is said of an option, or a command, that there is not.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sullae::cli {

/// "--epoch is not an option of sullae train (did you mean --epochs?); see sullae train --help".
/// `command` is the name of `app` with those before it.
std::string describe_unknown(const CLI::App& app, const std::string& name,
                             const std::string& command);
/// "'mnst' is not a command of sullae train (did you mean mnist?); see sullae train --help".
std::string describe_unknown_command(const CLI::App& app, const std::string& name,
                                     const std::string& command);
/// "sullae data is followed by one of convert, shard, inspect, verify; see sullae data --help";
/// empty where it has no commands.
std::string describe_missing_command(const CLI::App& app, const std::string& command);

}  // namespace sullae::cli
