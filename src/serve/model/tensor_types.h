// Types of the protocol as libtorch's.
#pragma once

#include <torch/types.h>

#include "serve/tensors.h"

namespace sullae::serve {

/// Throws RequestError (invalid) for a type that libtorch has not.
torch::ScalarType scalar_type_of(Datatype type);
/// Throws Error for a type that the protocol has not.
Datatype datatype_of(torch::ScalarType type);

}  // namespace sullae::serve
