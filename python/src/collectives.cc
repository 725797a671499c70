#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "bindings.h"
#include "sullae/torch.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

using Tensors = std::vector<torch::Tensor>;

struct Operation {
  TensorHandle handle;
  World world;
  std::string name;
  bool observed = false;  // it has been seen to be done
};

// Operations from their submission until Python has seen their end. For two reasons: a name means
// one operation at a time; and whoever drops the last reference to a tensor that Python owns needs
// the interpreter's lock, for which the engine's thread would wait while Python computes. Guarded
// by that lock.
class UnderWay {
 public:
  bool has(const World& world, const std::string& name) const {
    const auto [first, last] = named_.equal_range(name);
    return std::any_of(first, last,
                       [&](const auto& other) { return other.second->world == world; });
  }
  void add(const std::shared_ptr<Operation>& operation) {
    let_go();
    operations_.push_back(operation);
    ++unobserved_;
    if (!operation->name.empty()) named_.emplace(operation->name, operation);
  }
  // `operation` is done.
  void observe(Operation& operation) {
    if (std::exchange(operation.observed, true)) return;
    --unobserved_;
    const auto [first, last] = named_.equal_range(operation.name);
    for (auto it = first; it != last; ++it) {
      if (it->second.get() == &operation) {
        named_.erase(it);
        break;
      }
    }
  }
  // What is done.
  void let_go() {
    if (unobserved_ > 0 && operations_.size() < look_at_) return;
    std::erase_if(operations_, [this](const auto& operation) {
      if (!operation->handle.done()) return false;
      observe(*operation);
      return true;
    });
    look_at_ = 2 * operations_.size() +
               1;  // so that each is looked at a few times, however many there are
  }
  void clear() {
    operations_.clear();
    named_.clear();
    unobserved_ = 0;
  }

 private:
  std::vector<std::shared_ptr<Operation>> operations_;
  std::size_t unobserved_ = 0;
  std::size_t look_at_ = 1;
  std::unordered_multimap<std::string, std::shared_ptr<Operation>> named_;
};

UnderWay& under_way() {
  static auto* const instance = new UnderWay;  // outlives the interpreter
  return *instance;
}

// What the user has named is one operation among those of its kind, as in Horovod.
template <class Start>
std::shared_ptr<Operation> start(const World& world, const std::string& kind,
                                 const std::string& given, const Start& start) {
  const std::string name = given.empty() ? given : kind + ' ' + given;
  if (!name.empty() && under_way().has(world, name))
    throw InputError(kind + " '" + given +
                     "' was submitted again before it was done: expected another name, or "
                     "synchronize() or poll() before");
  TensorHandle handle;
  {
    const py::gil_scoped_release release;
    handle = start(name);
  }
  auto operation = std::make_shared<Operation>(Operation{std::move(handle), world, name});
  under_way().add(operation);
  return operation;
}

bool is_done(const std::shared_ptr<Operation>& operation) {
  const bool done = operation->handle.done();
  if (done) under_way().observe(*operation);
  return done;
}

Tensors wait_for(const std::shared_ptr<Operation>& operation) {
  const TensorHandle& handle = operation->handle;
  if (!handle.done()) {
    try {
      call_interruptibly([&] { handle.wait(); });
    } catch (const Error&) {  // it has ended
      under_way().observe(*operation);
      throw;
    }
  }
  under_way().observe(*operation);
  under_way().let_go();
  const py::gil_scoped_release release;  // it may copy
  return handle.wait();
}

}  // namespace

void bind_collectives(py::module_& module) {
  py::class_<Operation, std::shared_ptr<Operation>>(module, "TensorHandle")
      .def("done", &is_done)
      .def("wait", &wait_for);
  module.def("let_go", [] { under_way().clear(); });
  module.def(
      "allreduce_async",
      [](const World& world, const Tensors& inputs, const Tensors& outputs, ReduceOp op,
         double prescale, double postscale, const std::string& given) {
        return start(world, "allreduce", given, [&](const std::string& name) {
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
         const std::string& given) {
        return start(world, "broadcast", given, [&](const std::string& name) {
          return broadcast_async(input, output, root, {.name = name}, world);
        });
      },
      py::arg("world"), py::arg("input"), py::arg("output"), py::arg("root"), py::arg("name") = "");
  module.def(
      "allgather_async",
      [](const World& world, const Tensors& tensors, const std::string& given) {
        return start(world, "allgather", given, [&](const std::string& name) {
          return allgather_async(tensors, {.name = name}, world);
        });
      },
      py::arg("world"), py::arg("tensors"), py::arg("name") = "");
  module.def(
      "reducescatter_async",
      [](const World& world, const Tensors& tensors, ReduceOp op, double prescale, double postscale,
         const std::string& given) {
        return start(world, "reducescatter", given, [&](const std::string& name) {
          return reducescatter_async(
              tensors, op, {.name = name, .prescale = prescale, .postscale = postscale}, world);
        });
      },
      py::arg("world"), py::arg("tensors"), py::arg("op"), py::arg("prescale") = 1.0,
      py::arg("postscale") = 1.0, py::arg("name") = "");
  module.def(
      "alltoall_async",
      [](const World& world, const torch::Tensor& tensor,
         const std::optional<std::vector<std::int64_t>>& splits, const std::string& given) {
        return start(world, "alltoall", given, [&](const std::string& name) {
          return alltoall_async(tensor, splits, {.name = name}, world);
        });
      },
      py::arg("world"), py::arg("tensor"), py::arg("splits") = py::none(), py::arg("name") = "");
}

}  // namespace sullae::python
