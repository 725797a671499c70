#include "sullae/run_log.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <filesystem>
#include <map>
#include <string>

#include "bindings.h"

namespace py = pybind11;

namespace sullae::python {

void bind_run_log(py::module_& module) {
  py::class_<RunLog>(module, "RunLog")
      .def(py::init([](const std::filesystem::path& folder, std::string name,
                       std::map<std::string, std::string> settings, int ranks, bool resume) {
             return RunLog(
                 folder, {.name = std::move(name), .settings = std::move(settings), .ranks = ranks},
                 resume ? RunLog::Earlier::continued : RunLog::Earlier::refused);
           }),
           py::arg("folder"), py::arg("name"), py::arg("settings"), py::arg("ranks"),
           py::arg("resume"), ReleaseLock())
      .def("scalars", &RunLog::scalars, py::arg("step"), py::arg("values"), ReleaseLock())
      .def("goes_on_after", &RunLog::goes_on_after, py::arg("step"), ReleaseLock())
      .def("expect_steps", &RunLog::expect_steps, py::arg("steps"), ReleaseLock())
      .def("note", &RunLog::note, py::arg("text"), ReleaseLock())
      .def("completed", &RunLog::completed, ReleaseLock())
      .def("failed", &RunLog::failed, py::arg("why"), ReleaseLock())
      .def("stopped", &RunLog::stopped, py::arg("why"), ReleaseLock());
}

}  // namespace sullae::python
