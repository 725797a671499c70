#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <span>

#include "base/copy.h"
#include "parallel/ps/core_options.h"
#include "parallel/ps/whole_state.h"
#include "ps/client/slice_client.h"
#include "sullae/ps.h"
#include "torch/gradient_hooks.h"
#include "torch/trained_parameters.h"

namespace sullae::ps {
namespace {

constexpr const char* kOptimizer = "ParameterServerOptimizer";

void check_parameter(const std::string& name, const torch::Tensor& tensor) {
  if (tensor.scalar_type() != torch::kFloat32 || !tensor.device().is_cpu() || !tensor.is_leaf())
    throw InputError(
        fmt::format("{}: parameter '{}' is {} on {}: expected float32 leaves on the CPU",
                    kOptimizer, name, c10::toString(tensor.scalar_type()), tensor.device().str()));
}

}  // namespace

class ParameterServerOptimizer::Impl {
 public:
  Impl(const torch::OrderedDict<std::string, torch::Tensor>& parameters, const RuleOptions& rule,
       const WorkerOptions& options)
      : rate_(rate_of(rule)), rule_(core_rule(rule, kOptimizer)) {
    std::vector<std::size_t> sizes;
    for (const auto& item : each_once(parameters)) {
      if (!item.value().requires_grad()) {
        frozen_.push_back({.name = item.key(), .tensor = item.value()});
        continue;
      }
      check_parameter(item.key(), item.value());
      names_.push_back(item.key());
      tensors_.push_back(item.value());
      sizes.push_back(static_cast<std::size_t>(item.value().numel()));
    }
    if (tensors_.empty()) throw InputError(fmt::format("{}: no parameters to train", kOptimizer));
    const auto given = client_options(options, "optimizer", kOptimizer);
    client_.emplace(given, place(sizes, static_cast<int>(given.servers.size())), rule_);
    slices_of_.resize(tensors_.size());
    for (std::size_t i = 0; i < client_->slices().size(); ++i)
      for_ranges(i,
                 [&](const Range& range, std::size_t) { slices_of_[range.tensor].push_back(i); });
    give_values();
    client_->start();
    take_values();
  }

  void step() {
    check_still_frozen(frozen_, kOptimizer);
    for (std::size_t i = 0; i < client_->slices().size(); ++i) {
      if (!client_->has_pushed(i)) take_gradient(i);
    }
    client_->push_pull(rate_);
    take_values();
    if (ahead_) ahead_->begin();
  }

  void overlap_backward(int passes) {
    if (passes < 1)
      throw InputError(fmt::format(
          "{}: overlap_backward({}): expected at least one backward a step", kOptimizer, passes));
    if (ahead_) throw InputError(fmt::format("{}: overlaps backward already", kOptimizer));
    ahead_ = std::make_shared<Ahead>(*this, passes);
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      accumulators_.push_back(listen(ahead_, tensors_[i], i));
  }

  void set_learning_rate(double rate) {
    if (rate != rate_ && client_->is_pushing())
      throw InputError(fmt::format(
          "{}: the learning rate becomes {} after gradients were sent with {}: expected a change "
          "before backward(), which overlap_backward() sends them during",
          kOptimizer, rate, rate_));
    rate_ = rate;
  }

  void rest() { client_->rest(); }

  void pull() {
    client_->pull();
    take_values();
  }

  void gather_state(torch::optim::Optimizer& into) {
    client_->pull_state();
    std::vector<WholeState> wholes = whole_states();
    for (std::size_t i = 0; i < client_->slices().size(); ++i) {
      auto parts = empty_states(i);
      if (!unpack(client_->state(i), parts))
        throw Error(fmt::format("{}: a server's state is of another optimizer", kOptimizer));
      for_ranges(i, [&](const Range& range, std::size_t place) {
        wholes[range.tensor].put(range, parts[place]);
      });
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) wholes[i].give(into, tensors_[i]);
  }

  void scatter_state(torch::optim::Optimizer& from) {
    give_values();
    std::vector<WholeState> wholes = whole_states();
    for (std::size_t i = 0; i < tensors_.size(); ++i) wholes[i].take(from, tensors_[i]);
    for (std::size_t i = 0; i < client_->slices().size(); ++i) {
      auto parts = empty_states(i);
      for_ranges(i, [&](const Range& range, std::size_t place) {
        wholes[range.tensor].get(range, parts[place]);
      });
      client_->state(i) = pack(parts);
    }
    client_->put_state();
  }

  void zero_grad() {
    for (torch::Tensor& tensor : tensors_) tensor.mutable_grad() = torch::Tensor();
  }

  double learning_rate() const { return rate_; }
  const Delays& delays() const { return client_->delays(); }
  int staleness_bound() const { return client_->staleness_bound(); }

 private:
  // Sends slices as backward completes them.
  class Ahead final : public GradientListener {
   public:
    Ahead(Impl& impl, int passes) : impl_(impl), passes_(passes) { begin(); }

    // Another step.
    void begin() {
      passes_left_.assign(impl_.tensors_.size(), passes_);
      tensors_left_.clear();
      for (const Slice& slice : impl_.client_->slices())
        tensors_left_.push_back(slice.ranges.size());
    }

    void before_gradient(std::size_t index) override {
      if (passes_left_[index] > 0) return;
      throw InputError(fmt::format(
          "{}: parameter '{}' gets a gradient in backward {} of a step: expected step() after as "
          "many as overlap_backward({}) said, after which gradients are sent",
          kOptimizer, impl_.names_[index], passes_ + 1, passes_));
    }
    void on_gradient(std::size_t index) override {
      if (--passes_left_[index] > 0) return;
      for (const std::size_t slice : impl_.slices_of_[index]) {
        if (--tensors_left_[slice] == 0) impl_.push_ahead(slice);
      }
    }

   private:
    Impl& impl_;
    int passes_;
    std::vector<int> passes_left_;           // of each tensor
    std::vector<std::size_t> tensors_left_;  // of each slice
  };

  void push_ahead(std::size_t slice) {
    take_gradient(slice);
    client_->push_ahead(slice, rate_);
  }

  void take_gradient(std::size_t slice) {
    const torch::NoGradGuard guard;
    std::byte* to = std::as_writable_bytes(std::span(client_->gradient(slice))).data();
    for_ranges(slice, [&](const Range& range, std::size_t place) {
      const torch::Tensor& gradient = tensors_[range.tensor].grad();
      client_->present(slice)[place] = gradient.defined() ? 1 : 0;
      if (!gradient.defined()) {
        to += range.elements() * sizeof(float);
        return;
      }
      if (gradient.is_sparse())
        throw InputError(
            fmt::format("{}: parameter '{}' has a sparse gradient: expected a dense one, or a "
                        "ps::Embedding",
                        kOptimizer, names_[range.tensor]));
      copy_part(gradient, range, to);
    });
  }

  void give_values() {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < client_->slices().size(); ++i) {
      std::byte* to = std::as_writable_bytes(client_->values(i)).data();
      for_ranges(i, [&](const Range& range, std::size_t) {
        copy_part(tensors_[range.tensor].detach(), range, to);
      });
    }
  }

  std::vector<WholeState> whole_states() const {
    std::vector<WholeState> wholes;
    for (const torch::Tensor& tensor : tensors_)
      wholes.emplace_back(rule_.kind,
                          initial_state(rule_, static_cast<std::size_t>(tensor.numel())));
    return wholes;
  }

  std::vector<RuleState> empty_states(std::size_t slice) const {
    std::vector<RuleState> states;
    for (const Range& range : client_->slices()[slice].ranges)
      states.push_back(initial_state(rule_, range.elements()));
    return states;
  }

  template <class Visit>
  void for_ranges(std::size_t slice, const Visit& visit) const {
    const auto& ranges = client_->slices()[slice].ranges;
    for (std::size_t place = 0; place < ranges.size(); ++place) visit(ranges[place], place);
  }

  // From a tensor to what travels, where `to` goes on.
  static void copy_part(const torch::Tensor& tensor, const Range& range, std::byte*& to) {
    const torch::Tensor whole = tensor.contiguous();
    copy_bytes(to, whole.data_ptr<float>() + range.from, range.elements() * sizeof(float));
    to += range.elements() * sizeof(float);
  }

  void take_values() {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < client_->slices().size(); ++i) {
      const float* from = client_->values(i).data();
      for_ranges(i, [&](const Range& range, std::size_t) {
        torch::Tensor tensor = tensors_[range.tensor].detach();
        const auto elements = static_cast<std::int64_t>(range.elements());
        const auto part = torch::from_blob(const_cast<float*>(from), {elements});
        if (tensor.is_contiguous())
          tensor.view({-1}).narrow(0, static_cast<std::int64_t>(range.from), elements).copy_(part);
        else
          put_strided(tensor, range, part);
        from += range.elements();
      });
    }
  }

  // The elements in the order of a contiguous tensor.
  static void put_strided(torch::Tensor& tensor, const Range& range, const torch::Tensor& part) {
    torch::Tensor whole = tensor.contiguous();
    whole.view({-1}).narrow(0, static_cast<std::int64_t>(range.from), part.numel()).copy_(part);
    tensor.copy_(whole);
  }

  double rate_;
  Rule rule_;
  std::vector<std::string> names_;
  std::vector<PlannedParameter> frozen_;
  std::vector<torch::Tensor> tensors_;
  std::vector<std::vector<std::size_t>> slices_of_;  // each tensor
  std::optional<SliceClient> client_;
  std::shared_ptr<Ahead> ahead_;
  std::vector<Accumulator> accumulators_;
};

ParameterServerOptimizer::ParameterServerOptimizer(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters, const RuleOptions& rule,
    const WorkerOptions& options)
    : impl_(std::make_unique<Impl>(parameters, rule, options)) {}
ParameterServerOptimizer::~ParameterServerOptimizer() = default;

void ParameterServerOptimizer::step() { impl_->step(); }
void ParameterServerOptimizer::rest() { impl_->rest(); }
void ParameterServerOptimizer::pull() { impl_->pull(); }
void ParameterServerOptimizer::gather_state(torch::optim::Optimizer& into) {
  impl_->gather_state(into);
}
void ParameterServerOptimizer::scatter_state(torch::optim::Optimizer& from) {
  impl_->scatter_state(from);
}
int ParameterServerOptimizer::staleness_bound() const { return impl_->staleness_bound(); }
void ParameterServerOptimizer::zero_grad() { impl_->zero_grad(); }
double ParameterServerOptimizer::learning_rate() const { return impl_->learning_rate(); }
void ParameterServerOptimizer::set_learning_rate(double rate) { impl_->set_learning_rate(rate); }
void ParameterServerOptimizer::overlap_backward(int passes) { impl_->overlap_backward(passes); }

Staleness ParameterServerOptimizer::staleness() const { return staleness_of(impl_->delays()); }

}  // namespace sullae::ps
