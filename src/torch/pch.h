// Precompiled: libtorch's umbrella header takes some 20 seconds to parse.
#include <fmt/format.h>
#include <torch/torch.h>
