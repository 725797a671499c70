#include <torch/torch.h>

#include "parallel/units/unit_parameters.h"
#include "sullae/parallel/sharded_units.h"
#include "torch/held.h"

namespace sullae {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldUnit {
  std::shared_ptr<UnitParameters> parameters;
  std::size_t number = 0;
};

// Around a unit, one where it begins and one where it ends. Autograd runs what was made last first:
// all of the unit, and what collects its gradients, is done between the two.
struct Begin : torch::autograd::Function<Begin> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const HeldUnit& unit) {
    hold(*context, unit);
    return input.view_as(input);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto unit = held<HeldUnit>(*context);
    unit.parameters->finish_backward(unit.number);
    return {gradients[0], {}};
  }
};

struct End : torch::autograd::Function<End> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& output,
                               const HeldUnit& unit) {
    hold(*context, unit);
    // Not a view: whoever gets it may change it in place.
    return output.detach();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // What that records would be used when the parameters are gone.
    if (torch::GradMode::is_enabled())
      throw Error("ShardedUnit: backward() with create_graph, which units do not have");
    const auto unit = held<HeldUnit>(*context);
    unit.parameters->gather(unit.number, /*learns=*/true);
    return {gradients[0], {}};
  }
};

class Running {
 public:
  explicit Running(const HeldUnit& unit) : unit_(unit) {}
  ~Running() { unit_.parameters->release(unit_.number); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const HeldUnit& unit_;
};

}  // namespace

torch::Tensor detail::run_unit(const std::shared_ptr<UnitParameters>& parameters,
                               std::size_t number, const torch::Tensor& input,
                               const std::function<torch::Tensor(const torch::Tensor&)>& forward) {
  if (parameters == nullptr)
    throw Error("ShardedUnit: empty: expected one that ShardedUnits::shard() made");
  const HeldUnit unit{parameters, number};
  const bool learns = torch::GradMode::is_enabled();
  parameters->gather(number, learns);
  torch::Tensor output;
  {
    const Running running(unit);
    const bool begins = learns && input.requires_grad();
    if (begins) parameters->expect_backward(number);
    output = forward(begins ? Begin::apply(input, unit) : input);
    // Backward does not come to where it began: its gradients, and those of the unit's other runs,
    // are reduced once all are there.
    if (learns && !begins && output.requires_grad()) parameters->expect_backward(number);
  }
  return learns && output.requires_grad() ? End::apply(output, unit) : output;
}

}  // namespace sullae
