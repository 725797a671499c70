#include "sullae/elastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "base/log.h"
#include "launch/elastic/member.h"
#include "launch/elastic/protocol.h"
#include "sullae/adapter.h"
#include "sullae/torch.h"
#include "torch/broadcast_text.h"
#include "torch/generator_state.h"

namespace sullae::elastic {
namespace {

using Clock = std::chrono::steady_clock;

// How often ranks ask each other whether somebody comes or goes: seldom enough to cost nothing, and
// soon enough for who waits.
constexpr std::chrono::milliseconds kAskPeriod{50};
constexpr std::int64_t kMostCallsBetween = 1000;
// In place of a number of steps.
constexpr std::int64_t kNew = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kBroken = kNew + 1;

struct Tracked {
  std::function<std::string()> save;
  std::function<void(const std::string&)> load;
};

}  // namespace

class State::Impl {
 public:
  Impl(torch::nn::Module& model, torch::optim::Optimizer& optimizer)
      : model_(model), optimizer_(&optimizer) {}

  void track(const std::string& name, Tracked tracked) {
    if (!tracked_.emplace(name, std::move(tracked)).second)
      throw InputError(fmt::format("elastic::State: '{}' is tracked already", name));
  }

  void track_tensors(const std::string& name, std::function<std::vector<torch::Tensor>()> tensors) {
    if (!tensors_.emplace(name, std::move(tensors)).second)
      throw InputError(fmt::format("elastic::State: '{}' is tracked already", name));
  }

  void use(torch::optim::Optimizer& optimizer) {
    optimizer_ = &optimizer;
    look_at_model();
  }

  // Collective. Ranks that are behind, or new, get what the first of those that are not has.
  // `reason` is why there is another world, as far as this rank was told.
  void enter(World& world, std::string reason, std::optional<Clock::time_point> since) {
    world_ = world;
    put_back();
    // Twice as many, so that who has begun to change its weights, and not ended the step, comes
    // behind who has not.
    const bool is_torn = !is_new_ && versions() != versions_;
    std::int64_t own = 2 * steps_ - (is_torn ? 1 : 0);
    if (is_new_) own = has_begun_ ? kBroken : kNew;
    std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
    world.allgather(&own, all.data(), 1, DataType::int64);
    const auto furthest = std::ranges::max_element(all);
    const Member* const itself = Member::of_this_process();
    if (*furthest == kNew && world.rank() == 0 && itself != nullptr && itself->generation() > 0)
      log::warning(
          "elastic: no rank of generation {} has been in a world before: the training begins from "
          "its beginning, or its newest checkpoint",
          itself->generation());
    if (is_torn && own == *furthest)
      log::warning(
          "elastic: the world ended between the optimizer's step {} and State::step_done(), on all "
          "ranks: what is tracked is that of the step before; call step_done() right after the "
          "optimizer's step()",
          steps_ + 1);
    if (*furthest == kBroken)
      throw Error(
          "elastic: the ranks that had the state of the training are gone, and it with them");
    if (*std::ranges::min_element(all) != *furthest || *furthest == kNew)
      synchronize(world, static_cast<int>(furthest - all.begin()), own != *furthest || is_torn,
                  reason);
    is_new_ = false;
    has_begun_ = true;
    look_at_model();
    keep();
    calls_ = 0;
    ask_at_ = 1;
    asked_at_ = 0;
    asked_ = Clock::now();
    const Member* const member = Member::of_this_process();
    changes_.push_back({.generation = member != nullptr ? member->generation() : 0,
                        .ranks = world.size(),
                        .reason = std::move(reason),
                        .pause = since ? std::chrono::duration_cast<std::chrono::milliseconds>(
                                             Clock::now() - *since)
                                       : std::chrono::milliseconds{0}});
  }

  void step_done() {
    ++steps_;
    keep();
    ask();
  }

  void ask() {
    Member* const member = Member::of_this_process();
    if (member == nullptr || ++calls_ < ask_at_) return;
    // Whether one wants out, the fewest calls in which one's time passes, and whether one stays.
    std::int64_t said[3] = {member->wants_out() ? 1 : 0, -calls_until_next(),
                            member->leaves() ? 0 : 1};
    world_->allreduce(said, said, 3, DataType::int64, ReduceOp::max);
    ask_at_ = calls_ - said[1];
    asked_at_ = calls_;
    asked_ = Clock::now();
    if (said[0] == 0) return;
    throw Interrupted("ranks come or go: this world ends after the step", said[2] == 0,
                      member->leaves());
  }

  std::int64_t steps() const { return steps_; }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::int64_t calls_until_next() const {
    const double passed = std::chrono::duration<double>(Clock::now() - asked_).count();
    const double a_call =
        passed / static_cast<double>(std::max<std::int64_t>(calls_ - asked_at_, 1));
    const double wanted =
        std::chrono::duration<double>(kAskPeriod).count() / std::max(a_call, 1e-9);
    return std::clamp(static_cast<std::int64_t>(wanted), std::int64_t{1}, kMostCallsBetween);
  }

  // Who is behind and is given a part of it, and not the rest, has nothing. Who is not behind has
  // the same written over it, and keeps it when the root dies.
  void synchronize(World& world, int root, bool is_behind, std::string& reason) {
    const bool is_root = world.rank() == root;
    if (is_behind && !is_root) is_new_ = has_begun_ = true;
    try {
      receive(world, root);
      reason = broadcast_text(std::move(reason), root, world);
    } catch (...) {
      versions_ = versions();
      throw;
    }
  }

  void receive(World& world, int root) {
    const torch::NoGradGuard guard;
    const bool is_root = world.rank() == root;
    broadcast_parameters(model_, root, world);
    broadcast_optimizer_state(*optimizer_, root, world);
    for (auto& [name, tensors] : tensors_) {
      for (const torch::Tensor& tensor : tensors()) {
        torch::Tensor values = tensor.detach();
        broadcast(values, root, world);
      }
    }
    for (auto& [name, tracked] : tracked_) {
      std::string text = is_root ? tracked.save() : "";
      text = broadcast_text(std::move(text), root, world);
      if (!is_root) tracked.load(text);
    }
    world.broadcast(&steps_, 1, DataType::int64, root);
  }

  // Advances with every change of a parameter.
  std::uint64_t versions() const {
    std::uint64_t sum = 0;
    for (const torch::Tensor& parameter : parameters_) sum += parameter._version();
    return sum;
  }

  // What the next step's forward may change before the step is known to be everybody's.
  void keep() {
    if (Member::of_this_process() == nullptr) return;
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < buffers_.size(); ++i) kept_[i].copy_(buffers_[i]);
    versions_ = versions();
    generator_ = GeneratorState::now();
  }

  void put_back() {
    if (is_new_ || Member::of_this_process() == nullptr) return;
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(kept_[i]);
    if (generator_) generator_->put_back();
  }

  // To look each up in every step would take longer than to copy them.
  void look_at_model() {
    parameters_ = model_.parameters();
    buffers_ = model_.buffers();
    kept_.clear();
    for (const torch::Tensor& buffer : buffers_) kept_.push_back(buffer.detach().clone());
  }

  torch::nn::Module& model_;
  torch::optim::Optimizer* optimizer_;
  std::map<std::string, Tracked> tracked_;  // by name, in one order on all ranks, as the next
  std::map<std::string, std::function<std::vector<torch::Tensor>()>> tensors_;
  std::optional<World> world_;
  bool is_new_ = true;      // no world's state is here
  bool has_begun_ = false;  // one was, or a part of it
  std::int64_t steps_ = 0;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> buffers_;
  std::vector<torch::Tensor> kept_;  // as the buffers were after the last step
  std::uint64_t versions_ = 0;
  std::optional<GeneratorState> generator_;
  std::int64_t calls_ = 0;  // of ask(), in this world
  std::int64_t ask_at_ = 1;
  std::int64_t asked_at_ = 0;
  Clock::time_point asked_;
  std::vector<Change> changes_;
};

State::State(torch::nn::Module& model, torch::optim::Optimizer& optimizer)
    : impl_(std::make_unique<Impl>(model, optimizer)) {}
State::~State() = default;

void State::track(const std::string& name, std::function<std::string()> save,
                  std::function<void(const std::string&)> load) {
  impl_->track(name, {std::move(save), std::move(load)});
}
void State::track_tensors(const std::string& name,
                          std::function<std::vector<torch::Tensor>()> tensors) {
  impl_->track_tensors(name, std::move(tensors));
}
void State::use(torch::optim::Optimizer& optimizer) { impl_->use(optimizer); }
void State::step_done() { impl_->step_done(); }
void State::ask() { impl_->ask(); }
std::int64_t State::steps() const { return impl_->steps(); }
const std::vector<Change>& State::changes() const { return impl_->changes(); }

namespace {

// Why `train` was left; empty where it was asked to. Rethrows what no other world would mend.
std::string end_of_world(const World& world, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Interrupted&) {
    return "";
  } catch (const TimeoutError& error) {
    // Of an operation that some have not joined: it alone would end, and whoever hangs would be
    // waited for again.
    AdapterView(world).fail(error.what());
    return error.what();
  } catch (const std::exception& error) {
    if (AdapterView(world).has_failed()) return error.what();
    throw;
  }
}

int count_of(const char* variable) {
  std::size_t count = 1;
  read_count(process_environment(), variable, count, 1);
  return static_cast<int>(count);
}

void check(const Limits& limits, int least, int most) {
  if (limits.min < 1 || (limits.max != 0 && limits.max < limits.min)) {
    throw InputError(fmt::format(
        "elastic::run: {{.min = {}, .max = {}}}: expected at least 1, and max not below "
        "min, or 0 for any number",
        limits.min, limits.max));
  }
  if (least >= limits.min && (limits.max == 0 || most <= limits.max)) return;
  const auto wanted = limits.max == 0 ? fmt::format("{} ranks or more", limits.min)
                                      : fmt::format("{} to {} ranks", limits.min, limits.max);
  throw InputError(
      is_elastic()
          ? fmt::format("elastic::run: this program trains with {}, and the job may have {} to {}: "
                        "sullae run --min-np {}{}",
                        wanted, least, most,
                        limits.max == 0 ? std::max(least, limits.min)
                                        : std::clamp(least, limits.min, limits.max),
                        limits.max == 0
                            ? ""
                            : fmt::format(" --max-np {}", std::clamp(most, limits.min, limits.max)))
          : fmt::format("elastic::run: this program trains with {}, and the job has {}", wanted,
                        most));
}

}  // namespace

bool is_elastic() { return Member::of_this_process() != nullptr; }

int most_ranks() { return is_elastic() ? count_of("SULLAE_SIZE") : 1; }

torch::Device local_device() {
  const auto devices = static_cast<std::size_t>(torch::cuda::device_count());
  std::size_t place = 0;
  read_count(process_environment(), "SULLAE_LOCAL_RANK", place);
  if (devices == 0) return torch::kCPU;
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(place % devices)};
}

Outcome run(State& state, const std::function<void(World& world)>& train) {
  return run(state, {}, train);
}

Outcome run(State& state, const Limits& limits, const std::function<void(World& world)>& train) {
  Member* const member = Member::of_this_process();
  if (member == nullptr) {
    World world = init();
    check(limits, world.size(), world.size());
    state.impl().enter(world, "", std::nullopt);
    train(world);
    return Outcome::finished;
  }
  check(limits, count_of(kLeastVariable), most_ranks());
  std::optional<Clock::time_point> since;
  for (;;) {
    auto world = join_default_world(*member);
    if (!world) return Outcome::left;
    bool goes = false;
    try {
      state.impl().enter(*world, member->why_changed(), since);
      train(*world);
      return Outcome::finished;
    } catch (...) {
      const std::string why = end_of_world(*world, std::current_exception());
      since = Clock::now();
      // Of a world that has failed the launcher may need this one once more, for its state.
      goes = why.empty() && member->leaves();
      member->world_ended(why);
    }
    world.reset();
    shutdown();
    if (goes) {
      member->leave();
      return Outcome::left;
    }
  }
}

}  // namespace sullae::elastic
