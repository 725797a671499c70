#include "base/half.h"
#include "collective/reduce/reduce.h"

namespace sullae::reduction {
namespace {

struct Half {
  static void load_float16(const std::uint16_t* from, float* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) into[i] = float16_to_float(from[i]);
  }
  static void store_float16(const float* from, std::uint16_t* into, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) into[i] = float_to_float16(from[i]);
  }
};

}  // namespace
}  // namespace sullae::reduction

#include "collective/reduce/kernels.inl.h"

namespace sullae::reduction {
extern const KernelSet generic_kernels;
const KernelSet generic_kernels = make_kernel_set("generic");
}  // namespace sullae::reduction
