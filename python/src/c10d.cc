#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "c10d_backend.h"
#include "callback_threads.h"
#include "launch/environment.h"
#include "transport/settings.h"
#include "transport/store/store.h"
#include "transport/store/store_server.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

RendezvousSettings settings() { return RendezvousSettings::from(process_environment()); }
Deadline deadline() { return Deadline(settings().timeout); }

}  // namespace

// torch/csrc/distributed/c10d holds its backends by intrusive pointers, and is bound by torch
// itself.
void bind_c10d(py::module_& module) {
  py::module_::import("torch.distributed");
  py::class_<StoreServer, std::shared_ptr<StoreServer>>(module, "StoreServer")
      .def(py::init([](const std::string& address) {
             return std::make_shared<StoreServer>(StoreAddress::parse(address),
                                                  settings().job_secret);
           }),
           py::arg("address"))
      .def_property_readonly("port", &StoreServer::port);
  py::class_<Store>(module, "Store")
      .def(py::init([](const std::string& address) {
             return call_interruptibly([&] {
               return std::make_unique<Store>(StoreAddress::parse(address), deadline(), "",
                                              settings().job_secret);
             });
           }),
           py::arg("address"))
      .def(
          "set",
          [](Store& store, const std::string& key, const std::string& value) {
            call_interruptibly([&] { store.set(key, value, deadline()); });
          },
          py::arg("key"), py::arg("value"))
      .def(
          "get",
          [](Store& store, const std::string& key) {
            return call_interruptibly([&] { return store.get(key, deadline()); });
          },
          py::arg("key"));
  module.def("end_groups", &C10dBackend::end_all, py::arg("limit"), ReleaseLock());
  module.def(
      "c10d_backend",
      [](int rank, int size, const std::string& store, std::chrono::milliseconds timeout,
         const std::shared_ptr<StoreServer>& server,
         bool is_job) -> c10::intrusive_ptr<c10d::Backend> {
        const WorldOptions options{.rank = rank,
                                   .size = size,
                                   .store = store,
                                   .timeout = timeout,
                                   .rendezvous_timeout = timeout};
        return call_interruptibly([&] {
          const World world = is_job ? create_job_world(options) : World::create(options);
          return c10::make_intrusive<C10dBackend>(world, server);
        });
      },
      py::arg("rank"), py::arg("size"), py::arg("store"), py::arg("timeout"), py::arg("server"),
      py::arg("is_job"));
}

}  // namespace sullae::python
