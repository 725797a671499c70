#include "online/online_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "online/clock.h"
#include "online/config.h"
#include "online/judgement.h"
#include "online/model_stores.h"
#include "online/trigger.h"
#include "repository/publish.h"
#include "repository/serving_state.h"
#include "repository/versions.h"
#include "sullae/error.h"
#include "train/export.h"
#include "train/trained_on.h"

namespace sullae::online {
namespace {

namespace fs = std::filesystem;

// In the checkpoints that are published: the round, and up to which change of which file its
// samples go.
constexpr const char* kRound = "online-round";
constexpr const char* kRevision = "online-revision";
constexpr const char* kSamples = "online-samples";
constexpr std::int64_t kProgressMilliseconds = 1000;

double number_of(const CheckpointMetadata& metadata, const char* name) {
  const auto found = metadata.numbers.find(name);
  return found == metadata.numbers.end() ? 0 : found->second;
}

// The version that a round began with has lost its place.
class Superseded : public Error {
 public:
  using Error::Error;
};

}  // namespace

CheckpointMetadata read_version(const fs::path& file) {
  if (!fs::exists(file))
    throw InputError(fmt::format("{}: is not there: TorchScript modules are not trained further",
                                 file.string()));
  return read_checkpoint_metadata(file);
}

OnlineModel::OnlineModel(fs::path directory, std::string name)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      lock_(directory_),
      examples_(directory_ / kExamplesFile),
      rounds_(directory_ / kExamplesFile) {
  end_unfinished();
}

// A version appears whole or not at all, so whether it is there tells whether the round was
// published.
void OnlineModel::end_unfinished() {
  for (Round& round : rounds_.unfinished()) {
    round.ended = milliseconds_now();
    round.reason = "the process that trained it ended";
    const bool publishing = round.state == RoundState::publishing;
    round.state = RoundState::interrupted;
    if (publishing) {
      for (const std::int64_t version : repository::versions_in(directory_)) {
        if (version <= round.parent || !is_version_of(version, round.id)) continue;
        round.state = RoundState::published;
        round.version = version;
        round.reason.clear();
      }
    }
    rounds_.update(round);
    log::info("model {}: round {} of the process before: {}", name_, round.id,
              name_of(round.state));
  }
}

bool OnlineModel::is_version_of(std::int64_t version, std::int64_t round) const {
  const auto file = directory_ / std::to_string(version) / repository::kModelFile;
  if (!fs::exists(file)) return false;
  try {
    const auto metadata = read_checkpoint_metadata(file);
    return learnt_from_these(metadata) && number_of(metadata, kRound) == static_cast<double>(round);
  } catch (const CheckpointError& error) {
    log::warning("{}", error.what());
    return false;
  }
}

// Rounds and revisions of another file of samples are none of this one's.
bool OnlineModel::learnt_from_these(const CheckpointMetadata& metadata) const {
  const auto samples = metadata.texts.find(kSamples);
  return samples != metadata.texts.end() && samples->second == examples_.identity();
}

// The samples that the parent knows. A file that was put back from a backup knows nothing of the
// rounds after it was made, whose revisions and numbers it gives again.
std::int64_t OnlineModel::learnt_revision() const {
  if (!learnt_from_these(parent_)) return 0;
  const auto id = static_cast<std::int64_t>(number_of(parent_, kRound));
  std::int64_t before = 0;
  for (const Round& round : rounds_.newest(std::numeric_limits<std::int64_t>::max())) {
    if (round.state != RoundState::published || round.version > round_.parent) continue;
    if (round.version < round_.parent) {
      before = std::max(before, round.revision);
    } else if (round.id == id) {
      return round.revision;
    }
  }
  // Nor more than it says itself: it may be a copy of an older version.
  return std::min(before, static_cast<std::int64_t>(number_of(parent_, kRevision)));
}

// An operator may have rolled back what the round began with, or put another in its place.
void OnlineModel::check_still_serving() const {
  const auto serving = serving_version();
  if (serving != round_.parent)
    throw Superseded(fmt::format(
        "version {}, which the training began with, has given way to version {}: it begins again",
        round_.parent, serving));
}

std::int64_t OnlineModel::serving_version() const {
  const auto state = repository::read_serving_state(directory_);
  const auto versions = repository::versions_in(directory_);
  if (versions.contains(state.serving)) return state.serving;
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    if (!state.withdrawn.contains(*version)) return *version;
  }
  throw InputError(fmt::format("{}: has no version to start from", directory_.string()));
}

fs::path OnlineModel::parent_file() const {
  return directory_ / std::to_string(round_.parent) / repository::kModelFile;
}

// What was wrong with a round that has failed may have passed: it is made again, each time later,
// or when something has changed.
bool OnlineModel::rests_after_failure() const {
  constexpr std::int64_t kFirstPause = 60'000;
  constexpr std::int64_t kLongestPause = 3'600'000;
  constexpr std::int64_t kMostFailures = 10;
  std::int64_t pause = 0;
  std::int64_t ended = 0;
  for (const Round& round : rounds_.newest(kMostFailures)) {
    if (round.state != RoundState::failed) break;
    if (pause == 0 && round.revision < examples_.revision()) return false;
    ended = std::max(ended, round.ended);
    pause = pause == 0 ? kFirstPause : std::min(2 * pause, kLongestPause);
  }
  return milliseconds_now() - ended < pause;
}

// A server loads and checks what was published before it answers. A round that began earlier would
// begin with what is about to be replaced, and be in vain.
bool OnlineModel::awaits_server() const {
  constexpr std::int64_t kLongestWait = 30'000;
  if (published_ == 0 || milliseconds_now() - published_at_ >= kLongestWait) return false;
  const auto state = repository::read_serving_state(directory_);
  const bool is_served = state.serving > 0;
  return is_served && state.serving < published_ && !state.withdrawn.contains(published_) &&
         !state.unpromoted.contains(published_);
}

std::optional<Job> OnlineModel::begin(bool at_once) {
  const auto last_call = rounds_.last_call();
  const bool is_called = last_call > rounds_.answered_call();
  const auto [count, oldest] = examples_.count_since(rounds_.attempted_revision());
  if (at_once && !read_config()) return std::nullopt;
  if (!is_called && count == 0) return std::nullopt;
  if (awaits_server()) return std::nullopt;
  if (!read_config() || !config_.enabled) return std::nullopt;
  const Waiting waiting{.examples = count, .oldest = oldest, .called = is_called || at_once};
  round_ = {.trigger = trigger_of(waiting, config_, milliseconds_now()),
            .revision = examples_.revision(),
            .call = last_call,
            .started = milliseconds_now()};
  if (round_.trigger.empty()) return std::nullopt;
  const std::pair look{round_.revision, serving_version()};
  if (!waiting.called && (rests_after_failure() || look == last_in_vain_)) return std::nullopt;
  try {
    Job job = prepare();
    const auto changed = job.added.size() - job.first_changed;
    if (changed == 0) {
      const auto reason =
          fmt::format("no sample has changed since version {} was trained", round_.parent);
      // Who called wants to know; who only looks does not want a record of each look.
      if (last_call == rounds_.answered_call()) {
        last_in_vain_ = look;
        log::info("model {}: {}", name_, reason);
        return std::nullopt;
      }
      rounds_.begin(round_);
      end(RoundState::failed, reason);
      return std::nullopt;
    }
    rounds_.begin(round_);
    log::info("model {}: {} samples have changed since version {} ({}): training begins", name_,
              changed, round_.parent, round_.trigger);
    return job;
  } catch (const Error& error) {
    rounds_.begin(round_);
    fail(error.what());
    return std::nullopt;
  }
}

// Each time, since operators change it while this runs. False where it cannot be read.
bool OnlineModel::read_config() {
  try {
    config_ = read_online_config(directory_ / repository::kModelConfig);
    problem_.clear();
    return true;
  } catch (const Error& error) {
    if (problem_ != error.what()) log::warning("model {}: {}", name_, error.what());
    problem_ = error.what();
    return false;
  }
}

Job OnlineModel::prepare() {
  round_.parent = serving_version();
  const auto file = parent_file();
  parent_ = read_version(file);
  round_.since = learnt_revision();
  Job job{.description = train::description_of(parent_, file.string()),
          .data = train::trained_on(parent_, file.string()),
          .training = config_.training,
          .added = {}};
  if (!config_.data.empty()) job.data.data = config_.data;
  if (!config_.test_data.empty()) job.data.test_data = config_.test_data;
  job.training.seed = job.data.seed + static_cast<std::uint64_t>(round_.revision);
  std::size_t unknown = 0;
  std::string last;
  for (StoredExample& stored : examples_.all()) {
    // What came in the meantime is for the next round.
    if (stored.revision > round_.revision) continue;
    // Of an earlier model, say.
    if (job.description.has_classes() && !job.description.class_number(stored.example.label)) {
      ++unknown;
      last = fmt::format("'{}' of {}", stored.example.label, stored.example.key);
      continue;
    }
    if (stored.revision <= round_.since) {
      ++job.first_changed;
    } else {
      ++round_.authors[stored.author];
    }
    job.added.push_back({std::move(stored.example.input), std::move(stored.example.label)});
  }
  if (unknown > 0)
    log::warning(
        "model {}: {} samples are left out, whose labels version {} does not know, as {}: give "
        "them one that it knows, or take them back",
        name_, unknown, round_.parent, last);
  return job;
}

void OnlineModel::progress(std::int64_t step, std::int64_t steps) {
  const auto now = milliseconds_now();
  if (step < steps && now - last_progress_ < kProgressMilliseconds) return;
  last_progress_ = now;
  round_.step = step;
  round_.steps = steps;
  try {
    rounds_.update(round_);
  } catch (const Error& error) {  // training goes on
    log::warning("model {}: its progress is not kept: {}", name_, error.what());
  }
}

bool OnlineModel::finish(const train::FineTuneResult& result, const torch::nn::Module& network) {
  round_.result = result;
  try {
    check_still_serving();
    const auto reason = reason_against(result, config_);
    if (!reason.empty()) {
      end(RoundState::rejected, reason);
      return true;
    }
    round_.state = RoundState::publishing;
    rounds_.update(round_);
    publish(network);
  } catch (const Superseded& superseded) {
    end(RoundState::interrupted, superseded.what());
    return false;
  }
  end(RoundState::published, "");
  try {
    remove_old();
  } catch (const std::exception& error) {  // the round is what it is
    log::warning("model {}: old versions stay: {}", name_, error.what());
  }
  return true;
}

void OnlineModel::publish(const torch::nn::Module& network) {
  CheckpointMetadata metadata{.numbers = parent_.numbers, .texts = parent_.texts};
  metadata.numbers[kRound] = static_cast<double>(round_.id);
  metadata.numbers[kRevision] = static_cast<double>(round_.revision);
  metadata.texts[kSamples] = examples_.identity();
  const auto version = train::export_version(
      directory_.parent_path(), name_, [&](const std::filesystem::path& file) {
        save_checkpoint(file, network, nullptr, {.metadata = std::move(metadata)});
        check_still_serving();
      });
  round_.version = repository::version_number(version.filename().string());
  published_ = round_.version;
  published_at_ = milliseconds_now();
}

}  // namespace sullae::online
