#pragma once

#include <cstdlib>

namespace sullae::testing {

/// A variable of the environment, for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// Programs that are started meanwhile see no GPU: what they do is equal to the bit each time, or
/// compared with what is computed in host memory.
struct HiddenGpus : Variable {
  HiddenGpus() : Variable("CUDA_VISIBLE_DEVICES", "-1") {}
};

}  // namespace sullae::testing
