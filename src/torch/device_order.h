// Order between libtorch's streams and a device communicator's, without waiting in the host.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "sullae/device.h"
#include "sullae/sullae.h"

namespace sullae {

/// What moves `tensor` without a copy through host memory; null where nothing does. The first call
/// on a CUDA tensor is collective.
std::shared_ptr<DeviceCommunicator> device_communicator(const torch::Tensor& tensor,
                                                        const World& world);

/// Work of a device communicator between what libtorch's current stream has before and after it.
/// Made of libtorch's own events, so it needs no CUDA to be compiled.
class DeviceTurn {
 public:
  /// The communicator's stream waits for all that the current stream has so far.
  DeviceTurn(const DeviceCommunicator& communicator, torch::Device device);
  /// What the communicator still has to do is awaited by the stream that is current: the memory may
  /// be another's then.
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

  /// The communicator's work ends here.
  void end();
  /// The stream that is current now waits for that.
  void await() const;
  /// The host does.
  void wait_in_host() const;
  /// The same, after end(), for who lets go of the memory. Of a GPU that has failed, which what is
  /// asked of it next throws, too, there is a warning.
  void settle() const noexcept;

 private:
  torch::Device device_;
  c10::Stream stream_;
  c10::Event ended_;
  bool has_ended_ = false;
  mutable bool was_awaited_ = false;
};

}  // namespace sullae
