#include <mutex>
#include <utility>

#include "torch/reduction/reductions.h"

namespace sullae {
namespace {

struct Registered {
  std::mutex mutex;
  std::vector<ReductionMaker> makers;
};

Registered& registered() {
  static Registered of_the_process;
  return of_the_process;
}

}  // namespace

void register_reduction(ReductionMaker maker) {
  const std::lock_guard lock(registered().mutex);
  registered().makers.push_back(std::move(maker));
}

std::unique_ptr<BucketReduction> make_reduction(const ReductionRequest& request) {
  std::vector<ReductionMaker> makers;
  {
    const std::lock_guard lock(registered().mutex);
    makers = registered().makers;
  }
  makers.insert(makers.end(), {make_sparse_reduction, make_compressed_reduction,
                               make_adasum_reduction, make_device_reduction});
  for (const ReductionMaker& make : makers) {
    if (auto reduction = make(request)) return reduction;
  }
  return make_plain_reduction(request);
}

}  // namespace sullae
