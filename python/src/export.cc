#include "sullae/train/export.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/script.h>

#include <sstream>

#include "bindings.h"
#include "sullae/error.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

using Tensors = std::vector<std::tuple<std::string, py::object, std::vector<std::int64_t>>>;

std::vector<ServedTensor> tensors_of(const Tensors& given) {
  std::vector<ServedTensor> tensors;
  for (const auto& [name, type, shape] : given) {
    if (!THPDtype_Check(type.ptr()))
      throw InputError("'" + name + "': expected a torch.dtype, such as torch.float32");
    tensors.push_back({name, reinterpret_cast<THPDtype*>(type.ptr())->scalar_type, shape});
  }
  return tensors;
}

// What is exported is TorchScript's bytes, or the file of a package. Gives a text: Python's paths
// make one slash of "s3://".
std::string export_model(
    const std::variant<py::bytes, std::string>& model, const std::filesystem::path& repository,
    const std::string& name, const Tensors& inputs, const Tensors& outputs, int max_batch_size,
    const std::variant<std::monostate, ServedTexts, ServedImages>& preprocessing,
    const std::vector<std::string>& classes) {
  const TorchScriptExport options{.repository = repository,
                                  .name = name,
                                  .inputs = tensors_of(inputs),
                                  .outputs = tensors_of(outputs),
                                  .max_batch_size = max_batch_size,
                                  .preprocessing = preprocessing,
                                  .classes = classes};
  if (const auto* package = std::get_if<std::string>(&model)) {
    const py::gil_scoped_release release;
    return export_package(*package, options).string();
  }
  std::istringstream stream(std::get<py::bytes>(model));
  const py::gil_scoped_release release;
  return export_torchscript(torch::jit::load(stream, torch::kCPU), options).string();
}

}  // namespace

void bind_export(py::module_& module) {
  py::class_<ServedTexts>(module, "ServedTexts")
      .def(py::init([](std::vector<std::string> vocabulary, int max_words, bool normalise) {
             return ServedTexts{std::move(vocabulary), max_words, normalise};
           }),
           py::arg("vocabulary"), py::arg("max_words"), py::arg("normalise"));
  py::class_<ServedImages>(module, "ServedImages")
      .def(py::init([](int size, int channels, double centre_share, std::vector<double> mean,
                       std::vector<double> deviation) {
             return ServedImages{size, channels, centre_share, std::move(mean),
                                 std::move(deviation)};
           }),
           py::arg("size"), py::arg("channels"), py::arg("centre_share"), py::arg("mean"),
           py::arg("deviation"));
  module.def("export_model", &export_model, py::arg("model"), py::arg("repository"),
             py::arg("name"), py::arg("inputs"), py::arg("outputs"), py::arg("max_batch_size"),
             py::arg("preprocessing"), py::arg("classes"));
}

}  // namespace sullae::python
