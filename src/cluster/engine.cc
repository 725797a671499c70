#include "cluster/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/hash.h"
#include "base/number.h"
#include "base/split.h"
#include "cluster/kubernetes/kubernetes_engine.h"
#include "cluster/slurm/slurm_engine.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

constexpr const char* kMark = "sullae";
constexpr const char* kWorkers = "workers";
constexpr const char* kCoordinator = "coordinator";

struct Maker {
  const char* name;
  std::unique_ptr<Engine> (*make)(const Settings& settings);
};

constexpr std::array<Maker, 2> kMakers = {{
    {"slurm", make_slurm_engine},
    {"kubernetes", make_kubernetes_engine},
}};

}  // namespace

std::string Mark::to_text() const {
  return fmt::format("{}:{}:{}:{}:{}", kMark, jobs, id, submission,
                     role == Role::workers ? kWorkers : kCoordinator);
}

std::optional<Mark> Mark::parse(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 5 || parts[0] != kMark) return std::nullopt;
  const auto submission = number_in<int>(parts[3]);
  if (!submission) return std::nullopt;
  return Mark{.jobs = parts[1],
              .id = parts[2],
              .submission = *submission,
              .role = parts[4] == kWorkers ? Role::workers : Role::coordinator};
}

std::string to_text(EngineState state) {
  switch (state) {
    case EngineState::pending:
      return "waits";
    case EngineState::running:
      return "runs";
    case EngineState::ended:
      return "ended";
    case EngineState::failed:
      return "failed";
    case EngineState::cancelled:
      return "was cancelled";
    case EngineState::preempted:
      return "was preempted by a job of higher priority";
    case EngineState::timed_out:
      return "was still running at its time limit";
    case EngineState::out_of_memory:
      return "used up its memory";
    case EngineState::node_lost:
      return "lost its node";
    case EngineState::past_deadline:
      return "could not end by its deadline";
  }
  return "";
}

std::string mark_of(const std::filesystem::path& jobs) {
  return fmt::format("{:08x}",
                     fnv1a(std::filesystem::weakly_canonical(jobs).string()) & 0xffffffffU);
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const Maker& maker : kMakers) names.emplace_back(maker.name);
  return names;
}

std::unique_ptr<Engine> make_engine(const std::string& name, const Settings& settings) {
  for (const Maker& maker : kMakers) {
    if (name == maker.name) return maker.make(settings);
  }
  throw InputError(
      fmt::format("--engine {}: expected {}", name, fmt::join(engine_names(), " or ")));
}

}  // namespace sullae::cluster
