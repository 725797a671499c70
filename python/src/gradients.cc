#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "sullae/torch.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

// It waits for reductions that are under way.
struct DeleteWithoutLock {
  void operator()(DistributedGradients* gradients) const {
    const py::gil_scoped_release release;
    delete gradients;
  }
};

std::unique_ptr<DistributedGradients, DeleteWithoutLock> make_gradients(
    const std::vector<std::pair<std::string, torch::Tensor>>& parameters, ReduceOp op,
    int backward_passes_per_step, std::size_t bucket_bytes, const std::string& compression,
    bool sparse_as_dense, bool overlap, bool after_backward, const World& world) {
  torch::OrderedDict<std::string, torch::Tensor> named;
  for (const auto& [name, tensor] : parameters) named.insert(name, tensor);
  const DistributedOptimizerOptions options{.op = op,
                                            .backward_passes_per_step = backward_passes_per_step,
                                            .bucket_bytes = bucket_bytes,
                                            .compression = compression,
                                            .sparse_as_dense = sparse_as_dense,
                                            .overlap = overlap,
                                            .after_backward = after_backward};
  // Its waits are interrupted as this call is.
  return call_interruptibly([&] {
    return std::unique_ptr<DistributedGradients, DeleteWithoutLock>(
        new DistributedGradients(named, options, world));
  });
}

}  // namespace

void bind_gradients(py::module_& module) {
  py::class_<DistributedGradients, std::unique_ptr<DistributedGradients, DeleteWithoutLock>>(
      module, "DistributedGradients")
      .def(py::init(&make_gradients), py::arg("parameters"), py::arg("op"),
           py::arg("backward_passes_per_step"), py::arg("bucket_bytes"), py::arg("compression"),
           py::arg("sparse_as_dense"), py::arg("overlap"), py::arg("after_backward"),
           py::arg("world"))
      .def("synchronize",
           [](DistributedGradients& gradients) {
             call_interruptibly([&] { gradients.synchronize(); });
           })
      .def("stepped", &DistributedGradients::stepped)
      .def("set_backward_passes_per_step", &DistributedGradients::set_backward_passes_per_step)
      .def("zero_grad", &DistributedGradients::zero_grad, ReleaseLock())
      .def_property_readonly("has_seen_gradients", &DistributedGradients::has_seen_gradients)
      .def(
          "join",
          [](DistributedGradients& gradients, const py::function& step, const py::function& clear) {
            const auto with_lock = [](const py::function& call) {
              return [&call] {
                const py::gil_scoped_acquire acquire;
                call();
              };
            };
            return call_interruptibly(
                [&] { return gradients.join(with_lock(step), with_lock(clear)); });
          },
          py::arg("step"), py::arg("clear"));

  py::class_<DistributedSampler>(module, "DistributedSampler")
      .def(py::init([](std::size_t dataset_size, int rank, int size, bool shuffle,
                       std::uint64_t seed, bool drop_last, std::size_t block) {
             return std::make_unique<DistributedSampler>(
                 dataset_size, rank, size,
                 DistributedSamplerOptions{
                     .shuffle = shuffle, .seed = seed, .drop_last = drop_last, .block = block});
           }),
           py::arg("dataset_size"), py::arg("rank"), py::arg("size"), py::arg("shuffle"),
           py::arg("seed"), py::arg("drop_last"), py::arg("block"))
      .def("set_epoch", &DistributedSampler::set_epoch, py::arg("epoch"), py::arg("taken") = 0)
      .def("indices", &DistributedSampler::indices);
}

}  // namespace sullae::python
