#include "pipeline/tell.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/dump_json.h"
#include "base/environment.h"
#include "base/log.h"
#include "cluster/command.h"
#include "sullae/error.h"

namespace sullae::pipeline {
namespace {

constexpr const char* kTimeout = "SULLAE_PIPELINE_TELL_TIMEOUT";

void run_and_warn(std::vector<std::string> words, const std::string& input) {
  std::chrono::milliseconds limit{60'000};
  try {
    read_seconds(process_environment(), kTimeout, ZeroMeans::error, limit);
    const auto result = cluster::run_command(
        {.words = words, .input = input, .timeout = limit, .timeout_setting = kTimeout});
    if (result.exit_code != 0)
      log::warning("tell: {} ended with exit code {}: {}", words.front(), result.exit_code,
                   result.errors);
  } catch (const Error& error) {
    log::warning("tell: {}", error.what());
  }
}

}  // namespace

void tell(const Tell& tell, const Pipeline& pipeline, const std::string& event,
          const std::string& message, const RunRecord& run) {
  nlohmann::json said = to_json(run);
  said["pipeline"] = pipeline.name;
  said["event"] = event;
  said["message"] = message;
  const std::string text = dump_json(said);
  if (!tell.command.empty())
    run_and_warn({"/usr/bin/env", "-C", pipeline.folder.string(), "SULLAE_PIPELINE_EVENT=" + event,
                  "SULLAE_PIPELINE_MESSAGE=" + message, "/bin/sh", "-c",
                  expand(tell.command, pipeline, run.scheduled)},
                 text);
  if (!tell.webhook.empty())
    run_and_warn({"curl", "-sS", "--fail-with-body", "-o", "/dev/null", "-H",
                  "Content-Type: application/json", "--data-binary", "@-", tell.webhook},
                 text);
}

}  // namespace sullae::pipeline
