#include "sullae/adapter.h"
#include "sullae/device.h"
#include "sullae/elastic.h"
#include "torch/device_order.h"
#include "torch/reduction/dense_reduction.h"
#include "torch/reduction/reductions.h"

namespace sullae {
namespace {

// The flags, in host memory, tell of ranks that are gone.
class DeviceReduction final : public DenseReduction {
 public:
  DeviceReduction(const ReductionRequest& request, std::shared_ptr<DeviceCommunicator> device)
      : DenseReduction(request, GradientMemory::on_device(request)), device_(std::move(device)) {}

  void start(bool stepping) override {
    DenseReduction::start(stepping);
    turn_.emplace(*device_, plan().device);
    device_->allreduce(memory().flat.data_ptr(), memory().flat.data_ptr(), plan().gradient_elements,
                       type(), op());
    turn_->end();
  }
  void reduce(Communicator& communicator) override { reduce_flags(communicator); }
  void finish() override {
    turn_->await();
    // Who goes on without a rank that is lost must not have taken the step with gradients that were
    // reduced in part: the flags came before.
    if (elastic::is_elastic()) {
      turn_->wait_in_host();
      device_->check();
    }
    DenseReduction::finish();
  }

 private:
  std::shared_ptr<DeviceCommunicator> device_;
  std::optional<DeviceTurn> turn_;
};

}  // namespace

std::unique_ptr<BucketReduction> make_device_reduction(const ReductionRequest& request) {
  if (!request.plan.device.is_cuda()) return nullptr;
  auto device = AdapterView(request.world).device_communicator(request.plan.device.index());
  if (device == nullptr) return nullptr;
  return std::make_unique<DeviceReduction>(request, std::move(device));
}

}  // namespace sullae
