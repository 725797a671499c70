// libtorch's element types and ours.
#pragma once

#include <torch/types.h>

#include <string_view>

#include "sullae/types.h"

namespace sullae {

/// Throws InputError that names `what` for a type that cannot be reduced.
DataType data_type(torch::ScalarType type, std::string_view what);

}  // namespace sullae
