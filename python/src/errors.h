// Sullae's exceptions in Python: those of sullae/errors.py.
#pragma once

namespace sullae::python {

/// From here on, what C++ throws is raised as the class of the same name. Call it once, while the
/// module is made.
void register_errors();

}  // namespace sullae::python
