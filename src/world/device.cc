// The world's way to GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "collective/allgather_texts.h"
#include "collective/make_communicator.h"
#include "collective/nccl/nccl_communicator.h"
#include "world/world_impl.h"

namespace sullae {
namespace {

// Why NCCL cannot join ranks on these GPUs, or an empty text.
std::string obstacle(const std::vector<std::string>& gpus, const std::vector<int>& names) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].empty())
      return fmt::format("rank {} has no such GPU, or no NCCL in its build", names[i]);
    const auto other =
        std::ranges::find(gpus.begin(), gpus.begin() + static_cast<long>(i), gpus[i]);
    if (other != gpus.begin() + static_cast<long>(i)) {
      return fmt::format("ranks {} and {} use the same GPU",
                         names[static_cast<std::size_t>(other - gpus.begin())], names[i]);
    }
  }
  return {};
}

}  // namespace

std::shared_ptr<DeviceCommunicator> World::Impl::device_communicator(int device) {
  const std::lock_guard lock(device_mutex_);
  check_joined();
  if (!device_decided_) {
    if (topology_.size > 1 &&
        session_->settings.collective.device_transport != DeviceTransport::host)
      device_ = make_device_communicator(device);
    device_decided_ = true;
  }
  return device_;
}

std::unique_ptr<DeviceCommunicator> World::Impl::make_device_communicator(int device) {
  const CollectiveSettings& settings = session_->settings.collective;
  std::vector<std::string> gpus;
  run("DEVICES", 0, [&](Communicator& communicator) {
    gpus = allgather_texts(communicator, nccl::identity_of(device));
  });
  if (const std::string reason = obstacle(gpus, topology_.names); !reason.empty()) {
    if (settings.device_transport == DeviceTransport::nccl)
      throw InputError(fmt::format("SULLAE_DEVICE_TRANSPORT=nccl: {}", reason));
    if (topology_.rank == 0) log::info("CUDA tensors go through host memory: {}", reason);
    return nullptr;
  }
  const nccl::Options options{
      .group = {.name = name_ + "all", .ranks = topology_.names, .index = topology_.rank},
      .device = device,
      .timeout = settings.waits.timeout,
      .rendezvous_timeout = session_->settings.rendezvous.timeout,
      .failure = failure_};
  if (!settings.hierarchical_nccl) return nccl::make(*rendezvous_, options);
  return nccl::make_hierarchical(
      *rendezvous_, options,
      {.name = fmt::format("{}host{}", name_, topology_.cross_rank()),
       .ranks = topology_.names_of(topology_.local_ranks()),
       .index = topology_.local_rank()},
      make_cross_communicator(*rendezvous_, topology_, settings,
                              {.name = name_ + "device", .failure = failure_}));
}

}  // namespace sullae
