#include <pybind11/stl.h>

#include "bindings.h"

namespace py = pybind11;

namespace sullae::python {

namespace {

py::object& known_world() {
  static auto* const known = new py::object;  // outlives the interpreter
  return *known;
}

// The same object as long as it is the same world: to make one takes as long as to start an
// operation.
py::object world_object() {
  py::object& known = known_world();
  World now = [] {
    const py::gil_scoped_release release;
    return world();
  }();
  if (!known || known.cast<const World&>() != now) known = py::cast(std::move(now));
  return known;
}

}  // namespace

void bind_world(py::module_& module) {
  py::enum_<ReduceOp>(module, "ReduceOp")
      .value("sum", ReduceOp::sum)
      .value("average", ReduceOp::average)
      .value("min", ReduceOp::min)
      .value("max", ReduceOp::max)
      .value("product", ReduceOp::product)
      .value("adasum", ReduceOp::adasum);

  py::class_<Handle>(module, "Handle")
      .def("done", &Handle::done)
      .def_property_readonly("source", &Handle::source)
      .def("wait", [](const Handle& handle) { call_interruptibly([&] { handle.wait(); }); });

  py::class_<World>(module, "World")
      .def_property_readonly("rank", &World::rank)
      .def_property_readonly("size", &World::size)
      .def_property_readonly("local_rank", &World::local_rank)
      .def_property_readonly("local_size", &World::local_size)
      .def_property_readonly("cross_rank", &World::cross_rank)
      .def_property_readonly("cross_size", &World::cross_size)
      .def_property_readonly("is_homogeneous", &World::is_homogeneous)
      .def_property_readonly("backend", &World::backend)
      .def_property_readonly("has_left", &World::has_left)
      .def("leave", &World::leave, ReleaseLock())
      .def("process_set", &World::process_set, py::arg("ranks"), ReleaseLock())
      .def(
          "barrier_async",
          [](const World& world, const std::string& name) {
            return world.barrier_async({.name = name});
          },
          py::arg("name") = "", ReleaseLock())
      .def("join",
           [](const World& world) { return call_interruptibly([&] { return world.join(); }); })
      .def("join_async", &World::join_async, ReleaseLock())
      .def(
          "start_timeline",
          [](const World& world, const std::string& file) { world.start_timeline(file); },
          py::arg("file"), ReleaseLock())
      .def("stop_timeline", &World::stop_timeline, ReleaseLock());

  module.def("init", [] { return call_interruptibly(init); });
  module.def("shutdown", [] {
    known_world() = {};
    const py::gil_scoped_release release;
    shutdown();
  });
  module.def("is_initialized", &is_initialized, ReleaseLock());
  module.def("world", &world_object);
}

}  // namespace sullae::python
