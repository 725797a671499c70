// Precompiled: libtorch's umbrella headers take some 20 seconds to parse.
#include <fmt/format.h>
#include <torch/script.h>
#include <torch/torch.h>
