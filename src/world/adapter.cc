#include "sullae/adapter.h"

#include "world/world_impl.h"

namespace sullae {

Handle AdapterView::submit(std::function<void(Communicator&)> operation,
                           const PlannedOptions& options) const {
  return World::handle_of(world_.impl_->submit(std::move(operation), options));
}

void AdapterView::run(std::function<void(Communicator&)> operation,
                      const PlannedOptions& options) const {
  world_.impl_->run_planned(std::move(operation), options);
}

Handle AdapterView::negotiate(std::function<void(Communicator&)> operation,
                              const ComposedOptions& options) const {
  if (options.what.empty()) throw InputError("AdapterView::negotiate: say what the operation is");
  engine::Submission submission;
  submission.composed = std::move(operation);
  return World::handle_of(world_.impl_->submit({.operation = Operation::composed},
                                               {.name = options.name, .shape = options.what},
                                               std::move(submission)));
}

std::shared_ptr<DeviceCommunicator> AdapterView::device_communicator(int device) const {
  return world_.impl_->device_communicator(device);
}

bool AdapterView::has_failed() const { return world_.impl_->has_failed(); }

void AdapterView::fail(const std::string& reason) const {
  world_.impl_->fail(std::make_exception_ptr(Error(reason)));
}

void AdapterView::abandon(const std::string& reason) const {
  world_.impl_->abandon(std::make_exception_ptr(Error(reason)));
}

void AdapterView::start_timeline(const std::filesystem::path& file, const std::string& job,
                                 int generation) const {
  world_.impl_->start_timeline({.file = file, .goes_on_of = job, .world = generation});
}

void AdapterView::suspend_timeline() const { world_.impl_->timeline().suspend(); }

void AdapterView::go_on_from(const World& before) const {
  world_.impl_->timeline().take_over(before.impl_->timeline());
}

std::uint64_t AdapterView::next_number() const { return world_.impl_->next_number(); }

}  // namespace sullae
