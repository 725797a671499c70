#include "torch/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>

#include "base/log.h"

namespace sullae {
namespace {

using torch::autograd::variable_list;

void warn_of_graphs() {
  static std::once_flag once;
  std::call_once(once, [] {
    log::warning(
        "backward(create_graph=True): gradients that ranks average have no graph: take what a "
        "penalty is made of from torch.autograd.grad(create_graph=True)");
  });
}

// Through a weak pointer, so that a backward after the listener's end does nothing.
class BeforeHook final : public torch::autograd::FunctionPreHook {
 public:
  BeforeHook(std::weak_ptr<GradientListener> listener, std::size_t index)
      : listener_(std::move(listener)), index_(index) {}
  variable_list operator()(const variable_list& gradients) override {
    if (const auto listener = listener_.lock()) listener->before_gradient(index_);
    return gradients;
  }

 private:
  std::weak_ptr<GradientListener> listener_;
  std::size_t index_;
};

class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(std::weak_ptr<GradientListener> listener, std::size_t index)
      : listener_(std::move(listener)), index_(index) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (const auto listener = listener_.lock()) {
      // What the other ranks have made of a gradient has no graph here.
      if (torch::GradMode::is_enabled()) warn_of_graphs();
      listener->on_gradient(index_);
    }
    return outputs;
  }
  bool listens() const { return !listener_.expired(); }

 private:
  std::weak_ptr<GradientListener> listener_;
  std::size_t index_;
};

}  // namespace

Accumulator listen(const std::weak_ptr<GradientListener>& listener, const torch::Tensor& parameter,
                   std::size_t index) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_pre_hook(std::make_unique<BeforeHook>(listener, index));
  accumulator->add_post_hook(std::make_unique<ReadyHook>(listener, index));
  return accumulator;
}

bool has_listener(const torch::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return accumulator != nullptr &&
         std::ranges::any_of(accumulator->post_hooks(), [](const auto& hook) {
           const auto* ready = dynamic_cast<const ReadyHook*>(hook.get());
           return ready != nullptr && ready->listens();
         });
}

}  // namespace sullae
