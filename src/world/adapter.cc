#include "sullae/adapter.h"

#include "world/world_impl.h"

namespace sullae {

Handle AdapterView::submit(std::function<void(Communicator&)> operation,
                           const PlannedOptions& options) const {
  return World::handle_of(world_.impl_->submit(std::move(operation), options));
}

std::shared_ptr<DeviceCommunicator> AdapterView::device_communicator(int device) const {
  return world_.impl_->device_communicator(device);
}

std::uint64_t AdapterView::next_number() const { return world_.impl_->next_number(); }

}  // namespace sullae
