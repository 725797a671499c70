#include "errors.h"

#include <pybind11/pybind11.h>

#include "sullae/error.h"

namespace py = pybind11;

namespace sullae::python {
namespace {

void raise(const char* name, const Error& error) {
  PyErr_SetString(py::module_::import("sullae.errors").attr(name).ptr(), error.what());
}

void raise(const PeerError& error) {
  const py::object type = py::module_::import("sullae.errors").attr("PeerError");
  const py::object instance = type(error.what(), error.rank());
  PyErr_SetObject(type.ptr(), instance.ptr());
}

}  // namespace

void register_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const PeerError& error) {
      raise(error);
    } catch (const TimeoutError& error) {
      raise("TimeoutError", error);
    } catch (const MismatchError& error) {
      raise("MismatchError", error);
    } catch (const CheckpointError& error) {
      raise("CheckpointError", error);
    } catch (const InputError& error) {
      raise("InputError", error);
    } catch (const Error& error) {
      raise("Error", error);
    }
  });
}

}  // namespace sullae::python
