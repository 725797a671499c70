#include "torch/device_order.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <exception>
#include <thread>

#include "base/log.h"
#include "sullae/adapter.h"

namespace sullae {
namespace {

c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// libtorch's number for a stream that it has not made is the stream's address
// (c10/cuda/CUDAStream.h, getStreamFromExternal).
c10::Stream stream_of(const DeviceCommunicator& communicator, torch::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device,
                     reinterpret_cast<c10::StreamId>(communicator.stream()));
}

}  // namespace

std::shared_ptr<DeviceCommunicator> device_communicator(const torch::Tensor& tensor,
                                                        const World& world) {
  if (!tensor.is_cuda() || tensor.layout() != torch::kStrided) return nullptr;
  return AdapterView(world).device_communicator(tensor.device().index());
}

DeviceTurn::DeviceTurn(const DeviceCommunicator& communicator, torch::Device device)
    : device_(device), stream_(stream_of(communicator, device)), ended_(device.type()) {
  c10::Event before(device.type());
  before.record(current_stream(device));
  before.block(stream_);
}

void DeviceTurn::end() {
  ended_.record(stream_);
  has_ended_ = true;
}

void DeviceTurn::await() const {
  ended_.block(current_stream(device_));
  was_awaited_ = true;
}

void DeviceTurn::wait_in_host() const {
  constexpr std::chrono::microseconds kNap{50};
  while (!ended_.query()) std::this_thread::sleep_for(kNap);
}

// Also where a call of the communicator's has thrown, and others before it have not.
DeviceTurn::~DeviceTurn() {
  if (!has_ended_) {
    try {
      end();
    } catch (const std::exception& error) {  // as in settle()
      log::warning("GPU {}: {}", device_.index(), error.what());
      return;
    }
  }
  settle();
}

void DeviceTurn::settle() const noexcept {
  if (was_awaited_) return;
  try {
    await();
  } catch (const std::exception& error) {  // what is asked of that GPU next throws
    log::warning("GPU {}: {}", device_.index(), error.what());
  }
}

}  // namespace sullae
