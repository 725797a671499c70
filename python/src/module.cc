// sullae._core: C++ Sullae for the Python package, which documents it. Users import sullae,
// sullae.torch, ….
#include "base/version.h"
#include "bindings.h"
#include "errors.h"

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = sullae::kVersion;
  module.attr("parts") = sullae::kParts;
  sullae::python::register_errors();
  sullae::python::bind_world(module);
  sullae::python::bind_collectives(module);
  sullae::python::bind_gradients(module);
  sullae::python::bind_c10d(module);
  sullae::python::bind_export(module);
  sullae::python::bind_elastic(module);
  sullae::python::bind_run_log(module);
}
