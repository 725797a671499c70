#include "pipeline/tell.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/dump_json.h"
#include "base/environment.h"
#include "base/log.h"
#include "cluster/command.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

constexpr const char* kTimeout = "SULLAE_PIPELINE_TELL_TIMEOUT";

void run_and_warn(const std::string& name, std::vector<std::string> words,
                  const std::string& input) {
  std::chrono::milliseconds limit{60'000};
  try {
    read_seconds(process_environment(), kTimeout, ZeroMeans::error, limit);
    const auto result = cluster::run_command(
        {.words = words, .input = input, .timeout = limit, .timeout_setting = kTimeout});
    if (result.exit_code != 0)
      log::warning("tell: {} ended with exit code {}{}{}", name, result.exit_code,
                   result.errors.empty() ? "" : ": ", result.errors);
  } catch (const Error& error) {
    log::warning("tell: {}", error.what());
  }
}

}  // namespace

Teller::~Teller() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Teller::tell(const std::string& event, const std::string& message, const RunRecord& run) {
  if (std::ranges::find(pipeline_.tell.of, event) == pipeline_.tell.of.end()) return;
  nlohmann::json said = to_json(run);
  said["pipeline"] = pipeline_.name;
  said["event"] = event;
  said["message"] = message;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({event, message, run.scheduled, dump_json(said)});
  }
  changed_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { tell_all(); });
}

void Teller::tell_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Told told = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      tell(told);
    } catch (const std::exception& error) {
      log::warning("tell: {}", error.what());
    }
    lock.lock();
  }
}

void Teller::tell(const Told& told) const {
  const Tell& how = pipeline_.tell;
  if (!how.command.empty())
    run_and_warn(how.command,
                 {"/usr/bin/env", "-C", pipeline_.folder.string(),
                  "SULLAE_PIPELINE_EVENT=" + told.event, "SULLAE_PIPELINE_MESSAGE=" + told.message,
                  "/bin/sh", "-c", expand(how.command, pipeline_, told.scheduled)},
                 told.text);
  if (!how.webhook.empty())
    run_and_warn("curl",
                 {"curl", "-sS", "--fail-with-body", "-o", "/dev/null", "-H",
                  "Content-Type: application/json", "--data-binary", "@-", how.webhook},
                 told.text);
}

}  // namespace sullae::pipeline
