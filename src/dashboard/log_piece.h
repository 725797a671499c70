// A piece of a log, for who reads on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace sullae::dashboard {

/// {"begin", "end", "size", "text"}: whole lines where there are, at most 256 KB, from byte `from`
/// on; without it, the end. A file that is not there is empty; so is one that links lead out of
/// `folder` to, which may be anybody's. Throws Error.
nlohmann::json log_piece(const std::filesystem::path& folder, const std::filesystem::path& file,
                         std::optional<std::int64_t> from);

}  // namespace sullae::dashboard
