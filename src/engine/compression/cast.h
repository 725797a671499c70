// Values travel with 16 bits.
#pragma once

#include <memory>
#include <string_view>

#include "sullae/compression.h"

namespace sullae::engine {

std::unique_ptr<Compression> make_float16_compression(std::string_view parameter);
std::unique_ptr<Compression> make_bfloat16_compression(std::string_view parameter);

}  // namespace sullae::engine
