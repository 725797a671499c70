// The text of a TOML file, before a parser sees it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sullae {

/// Throws InputError, with `name` and the line, where a character that is not ASCII stands outside of texts and
/// comments. TOML has no use for it there, and toml++ 3.3 does anything at all with some of them (what its
/// is_non_ascii_horizontal_whitespace takes for unreachable).
void check_toml(std::string_view text, const std::string& name);

/// Reads `file`, a regular one of at most 1 MB, and checks it so. Throws InputError that names it.
std::string read_toml(const std::filesystem::path& file);

}  // namespace sullae
