// How many threads a matrix product may use.
#pragma once

#include <dlfcn.h>

namespace sullae {

/// Sets the threads of OpenBLAS while it lives. OpenBLAS has one pool for the whole process, for
/// which threads that compute side by side would queue. libtorch may be linked with another BLAS,
/// so it is looked up; then this does nothing.
class BlasThreads {
 public:
  explicit BlasThreads(int threads) {
    const auto get = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    set_ = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (get == nullptr || set_ == nullptr) return;
    before_ = get();
    set_(threads);
  }
  ~BlasThreads() {
    if (before_ > 0) set_(before_);
  }
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;

 private:
  void (*set_)(int) = nullptr;
  int before_ = 0;
};

}  // namespace sullae
