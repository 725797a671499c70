#include <pybind11/stl.h>

#include "bindings.h"
#include "launch/elastic/member.h"
#include "sullae/adapter.h"

namespace py = pybind11;

namespace sullae::python {

using elastic::Member;

void bind_elastic(py::module_& module) {
  py::class_<Member, std::unique_ptr<Member, py::nodelete>>(module, "ElasticMember")
      .def("wants_out", &Member::wants_out, ReleaseLock())
      .def("leaves", &Member::leaves)
      .def("leave", &Member::leave, ReleaseLock())
      .def("world_ended", &Member::world_ended, py::arg("reason"))
      .def_property_readonly("generation", &Member::generation);
  module.def("elastic_member", &Member::of_this_process, py::return_value_policy::reference,
             ReleaseLock());
  // False where this process was asked to go meanwhile.
  module.def(
      "join_elastic", [](Member& member) { return join_default_world(member).has_value(); },
      py::arg("member"), ReleaseLock());
  module.def("has_failed", [](const World& world) { return AdapterView(world).has_failed(); });
  module.def(
      "fail", [](const World& world, const std::string& why) { AdapterView(world).fail(why); },
      py::arg("world"), py::arg("why"), ReleaseLock());
}

}  // namespace sullae::python
