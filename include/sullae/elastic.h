// Training that goes on while ranks come and go: with `sullae run --min-np N --max-np M`.
//
//     sullae::elastic::State state(*model, optimizer);
//     state.track("step", step);
//     sullae::elastic::run(state, {.min = 2, .max = 8}, [&](World& world) {
//       DistributedOptimizer distributed(optimizer, model->named_parameters(), {}, world);
//       for (; step < kSteps; ++step, state.step_done()) { … distributed.step(); }
//     });
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "sullae/sullae.h"

namespace sullae::elastic {

/// How the members of a world changed.
struct Change {
  int generation = 0;  ///< the number of the world, from 0
  int ranks = 0;
  std::string reason;  ///< what ended the world before
  /// From there to where training goes on.
  std::chrono::milliseconds pause{0};
};

/// What all ranks have alike after each step, and a rank that comes is given: the model, the
/// optimizer, and whatever else the program tracks. A step changes it on all ranks or on none:
/// where a world fails in the middle of one, ranks that have not taken the step are given the state
/// of those that have, and what the forward pass has changed (buffers, such as BatchNorm's, and the
/// generator of random numbers) is put back. Used by the thread that trains.
class State {
 public:
  /// Both must outlive it. `optimizer` is the one that updates the model's parameters, and not what
  /// wraps it.
  State(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// `value`, a number, a text, or what `save` makes a text of and `load` takes one, is given to
  /// ranks that come, too. Before run(); the same names on all ranks.
  template <class T>
  void track(const std::string& name, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      track(
          name, [&value] { return value; }, [&value](const std::string& text) { value = text; });
    } else {
      static_assert(std::is_arithmetic_v<T>, "track numbers, texts, or give save and load");
      track(
          name,
          [&value] { return std::string(reinterpret_cast<const char*>(&value), sizeof value); },
          [&value](const std::string& bytes) {
            bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
          });
    }
  }
  void track(const std::string& name, std::function<std::string()> save,
             std::function<void(const std::string&)> load);

  /// Tensors that are neither the model's nor the optimizer's, such as master weights; as many, of
  /// the same shapes, on all ranks.
  void track_tensors(const std::string& name, std::function<std::vector<torch::Tensor>()> tensors);
  /// From now on `optimizer` is the one that updates the parameters; on all ranks alike.
  void use(torch::optim::Optimizer& optimizer);

  /// After each step, on every rank alike: what is tracked is that of the step. Where somebody
  /// comes or goes it throws Interrupted, on all ranks after the same step, which run() takes.
  void step_done();
  /// The same question between two steps, where a test, say, takes long: on every rank equally
  /// often. What is tracked is that of the last step.
  void ask();
  /// Steps so far.
  std::int64_t steps() const;
  /// Of this process, the first world included.
  const std::vector<Change>& changes() const;

  class Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Thrown by State::step_done() and State::ask(): let it through.
class Interrupted : public Error {
 public:
  Interrupted(const std::string& what, bool everybody_goes, bool this_rank_goes)
      : Error(what), everybody_goes_(everybody_goes), this_rank_goes_(this_rank_goes) {}
  /// No rank of this world stays: what is not saved now is lost. The world still works.
  bool everybody_goes() const { return everybody_goes_; }
  /// The process has the time that it needs, until it lets this through.
  bool this_rank_goes() const { return this_rank_goes_; }

 private:
  bool everybody_goes_;
  bool this_rank_goes_;
};

enum class Outcome {
  finished,  ///< `train` returned
  left,  ///< this process was asked to go (SIGTERM, or its host is wanted back), and the others go
         ///< on: end it
};

/// Whether `sullae run` has started this process for an elastic job.
bool is_elastic();
/// How many ranks such a job has at most; 1 in another.
int most_ranks();
/// What this process computes on in such a job, before it has a world: by its place on the host.
torch::Device local_device();

/// How many ranks a program trains with.
struct Limits {
  int min = 1;
  int max = 0;  ///< 0: as many as there are
};

/// Calls `train` with the world, and again with another one, from the state of the last step that
/// all took, whenever ranks have come or gone. Everything that is made from a world, such as
/// optimizers, samplers and process sets, is made within `train`. Load libraries and data before:
/// the others go on until this process is ready.
///
/// In a job that is not elastic `train` is called once. Exceptions that are not of the world's
/// failure, such as those of the program and MismatchError, come out, and end this rank alone; that
/// of a world that cannot be replaced, too.
///
/// `sullae run` starts ranks and knows nothing of `limits`: a job that may have fewer or more of
/// them, by its --min-np and
/// --max-np, or -np, ends on all ranks with InputError before `train` is called.
Outcome run(State& state, const Limits& limits, const std::function<void(World& world)>& train);
Outcome run(State& state, const std::function<void(World& world)>& train);

}  // namespace sullae::elastic
