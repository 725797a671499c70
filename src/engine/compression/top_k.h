// The largest values travel, the others wait.
#pragma once

#include <memory>
#include <string_view>

#include "sullae/compression.h"

namespace sullae::engine {

std::unique_ptr<Compression> make_top_k_compression(std::string_view parameter);

}  // namespace sullae::engine
