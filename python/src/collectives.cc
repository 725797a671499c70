#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <deque>

#include "bindings.h"
#include "sullae/torch.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

using Tensors = std::vector<torch::Tensor>;

// Whoever drops the last reference to a tensor that Python owns needs the interpreter's lock, for which the engine's thread
// would wait while Python computes. So operations under way are held here, and let go by threads that have the lock.
class UnderWay {
 public:
  const TensorHandle& hold(TensorHandle handle) {
    let_go();
    handles_.push_back(std::move(handle));
    return handles_.back();
  }
  void let_go() {
    while (!handles_.empty() && handles_.front().done()) handles_.pop_front();
  }

 private:
  std::deque<TensorHandle> handles_;  // guarded by the interpreter's lock
};

UnderWay& under_way() {
  static auto* const instance = new UnderWay;  // outlives the interpreter
  return *instance;
}

template <class Start>
TensorHandle start(const Start& start) {
  TensorHandle handle;
  {
    const py::gil_scoped_release release;
    handle = start();
  }
  return under_way().hold(std::move(handle));
}

}  // namespace

void bind_collectives(py::module_& module) {
  py::class_<TensorHandle>(module, "TensorHandle")
      .def("done", &TensorHandle::done)
      .def("wait", [](const TensorHandle& handle) {
        if (!handle.done())
          wait_interruptibly([&](auto limit) { return handle.wait_for(limit); });
        const Tensors results = [&] {
          const py::gil_scoped_release release;  // it may copy
          return handle.wait();
        }();
        under_way().let_go();
        return results;
      });

  module.def("let_go", [] { under_way().let_go(); });
  module.def(
      "allreduce_async",
      [](const World& world, const Tensors& inputs, const Tensors& outputs, ReduceOp op,
         double prescale, double postscale, const std::string& name) {
        return start([&] {
          return allreduce_async(inputs, outputs, op,
                                 {.name = name, .prescale = prescale, .postscale = postscale},
                                 world);
        });
      },
      py::arg("world"), py::arg("inputs"), py::arg("outputs"), py::arg("op"),
      py::arg("prescale") = 1.0, py::arg("postscale") = 1.0, py::arg("name") = "");
  module.def(
      "broadcast_async",
      [](const World& world, const torch::Tensor& input, const torch::Tensor& output, int root,
         const std::string& name) {
        return start([&] { return broadcast_async(input, output, root, {.name = name}, world); });
      },
      py::arg("world"), py::arg("input"), py::arg("output"), py::arg("root"),
      py::arg("name") = "");
  module.def(
      "allgather_async",
      [](const World& world, const Tensors& tensors, const std::string& name) {
        return start([&] { return allgather_async(tensors, {.name = name}, world); });
      },
      py::arg("world"), py::arg("tensors"), py::arg("name") = "");
  module.def(
      "reducescatter_async",
      [](const World& world, const Tensors& tensors, ReduceOp op, double prescale,
         double postscale, const std::string& name) {
        return start([&] {
          return reducescatter_async(
              tensors, op, {.name = name, .prescale = prescale, .postscale = postscale}, world);
        });
      },
      py::arg("world"), py::arg("tensors"), py::arg("op"), py::arg("prescale") = 1.0,
      py::arg("postscale") = 1.0, py::arg("name") = "");
  module.def(
      "alltoall_async",
      [](const World& world, const torch::Tensor& tensor,
         const std::optional<std::vector<std::int64_t>>& splits, const std::string& name) {
        return start([&] { return alltoall_async(tensor, splits, {.name = name}, world); });
      },
      py::arg("world"), py::arg("tensor"), py::arg("splits") = py::none(), py::arg("name") = "");
  module.def(
      "send",
      [](const World& world, const torch::Tensor& tensor, int to, int tag) {
        send(tensor, to, tag, world);
      },
      py::arg("world"), py::arg("tensor"), py::arg("to"), py::arg("tag") = 0, ReleaseLock());
  module.def(
      "receive",
      [](const World& world, torch::Tensor tensor, int from, int tag) {
        return receive(tensor, from, tag, world);
      },
      py::arg("world"), py::arg("tensor"), py::arg("source"), py::arg("tag") = 0, ReleaseLock());
}

}  // namespace sullae::python
