// CUDA's handles as objects, and its errors as exceptions.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

#include "sullae/error.h"

namespace sullae::nccl {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error(fmt::format("CUDA: {}: {}", what, cudaGetErrorString(status)));
}

/// This thread uses `device` until the end of the scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "asking for the device");
    check(cudaSetDevice(device), "choosing the device");
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

/// A stream beside all others.
class Stream {
 public:
  explicit Stream(int device) : device_(device) {
    const OnDevice on(device);
    check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "creating a stream");
  }
  ~Stream() { cudaStreamDestroy(handle_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const { return handle_; }
  int device() const { return device_; }

 private:
  int device_;
  cudaStream_t handle_ = nullptr;
};

/// A point in a stream.
class Event {
 public:
  Event() {
    check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "creating an event");
  }
  ~Event() {
    if (handle_ != nullptr) cudaEventDestroy(handle_);
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  void record(cudaStream_t stream) {
    check(cudaEventRecord(handle_, stream), "recording an event");
  }
  bool passed() const {
    const cudaError_t status = cudaEventQuery(handle_);
    if (status == cudaErrorNotReady) return false;
    check(status, "asking for an event");
    return true;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace sullae::nccl
