// Whether a gradient is still what it was.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <cstdint>

namespace sullae {

/// Remembers a parameter's gradient. Autograd and everybody else who writes to it through libtorch
/// advances its version; reductions, which write to its memory, do not.
class GradientMark {
 public:
  enum class Change {
    none,
    removed,   ///< there is none any more: zero_grad() that sets to none
    replaced,  ///< by another tensor
    written,   ///< in place: zero_grad() that fills with zeros, or clipping
  };

  GradientMark() = default;
  explicit GradientMark(const torch::Tensor& gradient)
      : defined_(gradient.defined()),
        gradient_(gradient.getIntrusivePtr()),
        version_(defined_ ? gradient._version() : 0) {}

  Change change(const torch::Tensor& now) const {
    if (!defined_) return now.defined() ? Change::replaced : Change::none;
    if (!now.defined()) return Change::removed;
    if (now.unsafeGetTensorImpl() != gradient_._unsafe_get_target()) return Change::replaced;
    return now._version() == version_ ? Change::none : Change::written;
  }

 private:
  bool defined_ = false;
  // Weak: a gradient that was removed gives its memory back, but its place is not taken by
  // another's.
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> gradient_{
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()};
  std::uint32_t version_ = 0;
};

}  // namespace sullae
