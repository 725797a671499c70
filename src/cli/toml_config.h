// Settings from a TOML file, under the names of the flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sullae::cli {

/// Gives the options of `app` the values of the keys of `file`, where the command line does not. A
/// key is a flag's name without dashes. Throws InputError that names file, line and key for what is
/// no option or no value for it.
void apply_toml(CLI::App& app, const std::string& file);

/// The values of all options, as a TOML file that apply_toml takes; those in `left_out` are not
/// shown.
std::string to_toml(const CLI::App& app, const std::vector<std::string>& left_out);

}  // namespace sullae::cli
