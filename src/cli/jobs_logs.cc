#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "cli/jobs_commands.h"
#include "cli/validators.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

constexpr std::chrono::milliseconds kPeriod{200};
constexpr int kTurnsBetweenQuestions = 15;

// Lines of an attempt's log, of one node's processes or of all.
class LogReader {
 public:
  LogReader(const std::filesystem::path& attempt, std::string node)
      : log_(attempt / "log"), workers_(attempt / "workers.jsonl"), node_(std::move(node)) {}

  /// On which processes were started.
  std::set<std::string> nodes() const {
    std::set<std::string> nodes;
    for (const auto& [node, worker] : started()) nodes.insert(node);
    return nodes;
  }

  /// Prints what has come since the last time.
  void print_more() {
    std::ifstream stream(log_, std::ios::binary);
    stream.seekg(offset_);
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    std::string text;  // from offset_ on
    while (stream) {
      const std::size_t before = text.size();
      text.resize(before + kPiece);
      stream.read(text.data() + before, static_cast<std::streamsize>(kPiece));
      text.resize(before + static_cast<std::size_t>(stream.gcount()));
      const auto last = std::string_view(text).substr(before).rfind('\n');
      if (last == std::string_view::npos) continue;
      const std::size_t end = before + last;
      print(text.substr(0, end + 1));
      text.erase(0, end + 1);
      offset_ += static_cast<std::streamoff>(end + 1);
    }
    std::fflush(stdout);
  }

 private:
  // Whole lines.
  void print(const std::string& text) {
    if (node_.empty()) {
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else if (!text.empty()) {
      const auto tags = tags_of_node();
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const auto end = line.find(']');
        if (end != std::string::npos && tags.contains(line.substr(0, end + 1)))
          fmt::print("{}\n", line);
      }
    }
  }

  // Each process's node and number. "n1#2" is n1's second worker.
  std::vector<std::pair<std::string, int>> started() const {
    std::vector<std::pair<std::string, int>> found;
    std::ifstream stream(workers_);
    for (std::string line; std::getline(stream, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) continue;
      const auto host = json.value("node", "");
      found.emplace_back(host.substr(0, host.find('#')), json.value("worker", -1));
    }
    return found;
  }

  // "[3]" of each process that was started there.
  std::set<std::string> tags_of_node() const {
    std::set<std::string> tags;
    for (const auto& [node, worker] : started()) {
      if (node == node_) tags.insert(fmt::format("[{}]", worker));
    }
    return tags;
  }

  std::filesystem::path log_;
  std::filesystem::path workers_;
  std::string node_;
  std::streamoff offset_ = 0;
};

class LogsCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& jobs) override {
    CLI::App* const app = jobs.add_subcommand("logs", "What a job has printed");
    app->add_option("job", id_, "The job")->required()->type_name("JOB");
    app->add_flag("-f,--follow", follow_, "Go on until the job is over");
    app->add_option("--node", node_, "Only what processes on that node have printed")
        ->type_name("NODE");
    app->add_option("--attempt", attempt_, "By default the last one")
        ->check(positive_integer())
        ->type_name("N");
    return app;
  }

  int run() override {
    OpenCluster cluster;
    const auto folder = cluster.jobs.find(id_);
    int attempt = attempt_ > 0 ? attempt_ : folder.attempts();
    if (attempt > folder.attempts())
      throw InputError(fmt::format("job {} has had {} attempts", folder.id(), folder.attempts()));
    if (attempt == 0 && !follow_) {
      const auto view = view_of(cluster.jobs, folder);
      throw InputError(fmt::format("job {} has printed nothing: it is {}{}; --follow waits",
                                   folder.id(), to_text(view.state),
                                   view.reason.empty() ? "" : ": " + view.reason));
    }
    if (!node_.empty() && !follow_) {
      const auto nodes = LogReader(folder.attempt(attempt), "").nodes();
      if (!nodes.contains(node_)) {
        throw InputError(fmt::format("attempt {} of job {} had no process on node {}: it ran on {}",
                                     attempt, folder.id(), node_, fmt::join(nodes, ", ")));
      }
    }
    std::optional<LogReader> reader;
    if (attempt > 0) reader.emplace(folder.attempt(attempt), node_);
    for (int turn = 0;; ++turn) {
      if (reader) reader->print_more();
      if (!follow_) return 0;
      if (attempt_ == 0 && folder.attempts() > attempt) {
        attempt = folder.attempts();
        reader.emplace(folder.attempt(attempt), node_);
        continue;
      }
      if (turn % kTurnsBetweenQuestions == 0 && is_job_over(cluster, folder)) {
        if (reader) reader->print_more();
        return 0;
      }
      std::this_thread::sleep_for(kPeriod);
    }
  }

 private:
  static bool is_job_over(OpenCluster& cluster, const cluster::JobFolder& folder) {
    const auto answer = view_or_problem(cluster, folder);
    const auto* const view = std::get_if<cluster::JobView>(&answer);
    return view != nullptr && is_over(view->state);
  }

  std::string id_;
  bool follow_ = false;
  std::string node_;
  int attempt_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_jobs_logs_command() { return std::make_unique<LogsCommand>(); }

}  // namespace sullae::cli
