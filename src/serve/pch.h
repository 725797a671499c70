// Precompiled: what most files of this folder include.
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
