#include "pipeline/state.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/dump_json.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/system_error.h"
#include "sullae/error.h"

namespace sullae::pipeline {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Done, command, environment, scheduled, inputs, outputs)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr const char* kRunFile = "run.json";
constexpr const char* kAsked = "asked-to-end";

json read(const fs::path& file) {
  if (!fs::exists(file)) return nullptr;
  return json::parse(read_file(file, kMostBytes), nullptr, false);
}

// What a step has written need not be UTF-8.
std::string text_of(const json& value) { return dump_json(value, 2); }

std::optional<RunRecord> read_run(const fs::path& file) {
  try {
    const json saved = read(file);
    if (saved.is_object()) return run_from(saved);
  } catch (const json::exception&) {
    // Of a version that is none of ours, or damaged: as if it had not been.
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
  return std::nullopt;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(fmt::format("{}: {}", folder.string(), error.message()));
}

}  // namespace

State::State(const Pipeline& pipeline)
    : folder_(pipeline.folder / ".sullae" / "pipelines" / pipeline.name) {}

fs::path State::run_folder(Time scheduled) const {
  // The same for whoever looks, wherever.
  return folder_ / "runs" / fmt::format("{:%Y-%m-%dT%H%M%SZ}", fmt::gmtime(scheduled));
}

fs::path State::log(Time scheduled, const std::string& step) const {
  return run_folder(scheduled) / (step + ".log");
}

std::string State::id() const {
  const fs::path file = folder_ / "id";
  constexpr std::size_t kLength = 32;
  if (fs::exists(file)) {
    auto id = read_file(file, kMostBytes);
    if (id.size() == kLength) return id;
  }
  make_folder(folder_);
  auto id = draw_secret();
  write_file(file, id);
  return id;
}

std::optional<RunRecord> State::run(Time scheduled) const {
  return read_run(run_folder(scheduled) / kRunFile);
}

void State::save(const RunRecord& run) const {
  make_folder(run_folder(run.scheduled));
  write_file(run_folder(run.scheduled) / kRunFile, text_of(to_json(run)) + '\n');
}

std::vector<RunRecord> State::runs(std::size_t most) const {
  std::error_code error;
  auto folders = entries_of(folder_ / "runs", error).value_or(std::vector<fs::path>{});
  std::vector<RunRecord> runs;
  for (const auto& folder : std::views::reverse(folders)) {
    if (runs.size() == most) break;
    if (auto run = read_run(folder / kRunFile)) runs.push_back(*std::move(run));
  }
  return runs;
}

std::vector<Done> State::done(const std::string& step) const {
  try {
    const json saved = read(folder_ / "steps" / (step + ".json"));
    if (saved.is_array()) return saved.get<std::vector<Done>>();
  } catch (const json::exception&) {
    // It is done again.
  }
  return {};
}

void State::add(const std::string& step, const Done& done) const {
  // What is forgotten is done again: of a pipeline that runs every ten minutes these are a month's.
  constexpr std::size_t kKept = 5000;
  auto all = this->done(step);
  std::erase_if(all, [&](const Done& one) {
    return one.command == done.command && one.outputs == done.outputs &&
           one.scheduled == done.scheduled;
  });
  all.push_back(done);
  if (all.size() > kKept) all.erase(all.begin());
  std::string text = dump_json(json(all));
  // Of steps with very many files fewer are kept.
  while (text.size() > kMostBytes / 2 && all.size() > 1) {
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    text = dump_json(json(all));
  }
  make_folder(folder_ / "steps");
  write_file(folder_ / "steps" / (step + ".json"), text + '\n');
}

std::optional<State::Holder> State::holder() const {
  if (!is_locked(folder_ / "lock").value_or(false)) return std::nullopt;
  const auto said = json::parse(read_file(folder_ / "lock", kMostBytes), nullptr, false);
  if (!said.is_object()) return Holder{};
  return Holder{.host = said.value("host", ""),
                .pid = said.value("pid", 0),
                .scheduled = said.value("scheduled", Time{0})};
}

std::optional<UniqueFd> State::try_lock(Time scheduled) const {
  make_folder(folder_);
  UniqueFd fd(::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) throw system_error("{}/lock", folder_.string());
  if (!sullae::try_lock(fd.get(), folder_ / "lock")) return std::nullopt;
  const std::string who =
      json{{"host", host_name()}, {"pid", ::getpid()}, {"scheduled", scheduled}}.dump();
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
    throw system_error("{}/lock", folder_.string());
  fs::remove(folder_ / kAsked);
  return fd;
}

void State::ask_to_end() const { write_file(folder_ / kAsked, ""); }
bool State::is_asked_to_end() const { return fs::exists(folder_ / kAsked); }

bool State::is_killed(const RunRecord& run) const {
  if (run.state != RunState::running) return false;
  const auto who = holder();
  return !who || who->scheduled != run.scheduled;
}

bool State::is_killed(const RunRecord& run, const StepRecord& step) const {
  return step.state == StepState::running && is_killed(run);
}

std::string State::describe(const RunRecord& run) const {
  if (run.state != RunState::running) return to_text(run.state) + (run.is_late ? ", late" : "");
  if (is_killed(run)) return "killed";
  return run.foreseen_late ? "running, late" : "running";
}

std::string State::describe(const RunRecord& run, const StepRecord& step) const {
  return is_killed(run, step) ? "killed" : to_text(step.state);
}

}  // namespace sullae::pipeline
