// Where libtorch's random numbers on the CPU are.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <mutex>
#include <utility>

namespace sullae {

/// libtorch's generator of random numbers on the CPU; a tensor of its state takes longer to make
/// than a small step.
struct GeneratorState {
  at::mt19937 engine;
  // c10::optional or std::optional, by libtorch's version.
  decltype(std::declval<at::CPUGeneratorImpl&>().next_float_normal_sample()) next_float;
  decltype(std::declval<at::CPUGeneratorImpl&>().next_double_normal_sample()) next_double;

  static at::CPUGeneratorImpl& generator() {
    return *at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  }
  static GeneratorState now() {
    at::CPUGeneratorImpl& from = generator();
    const std::lock_guard lock(from.mutex_);
    return {from.engine(), from.next_float_normal_sample(), from.next_double_normal_sample()};
  }
  void put_back() const {
    at::CPUGeneratorImpl& to = generator();
    const std::lock_guard lock(to.mutex_);
    to.set_engine(engine);
    to.set_next_float_normal_sample(next_float);
    to.set_next_double_normal_sample(next_double);
  }
};

}  // namespace sullae
