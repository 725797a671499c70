#include "bindings.h"

namespace sullae::python {

// Backends of one's own came with torch 2.
void bind_c10d(pybind11::module_&) {}

}  // namespace sullae::python
