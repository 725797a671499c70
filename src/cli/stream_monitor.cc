#include "cli/stream_monitor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/counted.h"
#include "base/file.h"

namespace sullae::cli {
namespace {

// Of several ranks each has its own file, "predict-1.prom".
std::filesystem::path of_rank(std::filesystem::path file, int rank) {
  if (file.empty() || rank == 0) return file;
  file.replace_filename(
      fmt::format("{}-{}{}", file.stem().string(), rank, file.extension().string()));
  return file;
}

}  // namespace

StreamMonitor::StreamMonitor(std::string source, std::filesystem::path metrics, int rank)
    : source_(std::move(source)),
      metrics_(of_rank(std::move(metrics), rank)),
      rank_(rank),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

StreamMonitor::~StreamMonitor() {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void StreamMonitor::show(const predict::StreamProgress& progress) {
  const auto now = Clock::now();
  if (progress.predicted != seen_) last_ = now;
  seen_ = progress.predicted;
  const auto passed = now - shown_;
  if (passed < (terminal_ ? std::chrono::seconds{1} : std::chrono::seconds{10})) return;
  const auto since = progress.predicted - predicted_;
  a_second_ = static_cast<double>(since) / std::chrono::duration<double>(passed).count();
  shown_ = now;
  predicted_ = progress.predicted;
  if (!metrics_.empty()) write(progress);
  if (!terminal_ && since == 0) return;
  fmt::print(stderr, "{}predicted {} messages  {:.0f}/s  {} behind in {}{}{}",
             terminal_ ? "\r\x1b[K" : "", progress.predicted, a_second_, progress.lag,
             counted(progress.partitions, "partition"),
             progress.damaged > 0 ? fmt::format("  {} damaged", progress.damaged) : "",
             terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void StreamMonitor::finish(const predict::StreamProgress& progress) {
  if (!metrics_.empty()) write(progress);
}

void StreamMonitor::write(const predict::StreamProgress& progress) {
  const auto labels = fmt::format("{{source=\"{}\",rank=\"{}\"}}", source_, rank_);
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, double value) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0}{3} {4}\n", name, help, type, labels,
                        value);
  };
  add("sullae_predict_messages_total", "counter", "Messages that were predicted.",
      static_cast<double>(progress.predicted));
  add("sullae_predict_damaged_total", "counter", "Messages that were left out as damaged.",
      static_cast<double>(progress.damaged));
  add("sullae_predict_messages_per_second", "gauge", "Over the last seconds.", a_second_);
  add("sullae_source_lag_messages", "gauge", "Messages that wait in this rank's partitions.",
      static_cast<double>(progress.lag));
  add("sullae_source_partitions", "gauge", "Partitions that this rank has.", progress.partitions);
  add("sullae_source_idle_seconds", "gauge", "Since the last message was predicted.",
      std::chrono::duration<double>(Clock::now() - last_).count());
  best_effort_.run([&] { write_file(metrics_, text); });
}

}  // namespace sullae::cli
