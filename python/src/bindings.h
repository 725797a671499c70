// The parts of the module `sullae._core`, a file each. What may wait for another rank releases the
// interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include "base/interruption.h"
#include "sullae/sullae.h"

namespace sullae::python {

void bind_world(pybind11::module_& module);
void bind_collectives(pybind11::module_& module);
void bind_gradients(pybind11::module_& module);
void bind_c10d(pybind11::module_& module);
void bind_export(pybind11::module_& module);
void bind_elastic(pybind11::module_& module);
void bind_run_log(pybind11::module_& module);

using ReleaseLock = pybind11::call_guard<pybind11::gil_scoped_release>;

/// Calls what may wait for long, without the interpreter's lock, and so that Ctrl-C is heard. Call
/// it with the lock.
template <class Call>
auto call_interruptibly(const Call& call) {
  const Interruptible hears([] {
    const pybind11::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  });
  const pybind11::gil_scoped_release release;
  return call();
}

}  // namespace sullae::python
