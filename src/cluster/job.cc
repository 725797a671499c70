#include "cluster/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <regex>
#include <sstream>

#include "base/local_time.h"
#include "base/name.h"
#include "base/number.h"
#include "base/split.h"
#include "base/toml_file.h"
#include "base/utf8.h"
#include "cluster/job_folder.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

constexpr int kMostNodes = 100'000;
constexpr int kMostRanks = 1024;  // of a node
constexpr int kMostAttempts = 1'000'000;

bool is_priority(const std::string& text) {
  return text == "high" || text == "low" || number_in<std::uint32_t>(text).has_value();
}

void require(bool condition, const std::string& message) {
  if (!condition) throw InputError(message);
}

toml::array to_array(const std::vector<std::string>& words) {
  toml::array array;
  for (const auto& word : words) array.push_back(word);
  return array;
}

toml::table to_table(const std::map<std::string, std::string>& texts) {
  toml::table table;
  for (const auto& [name, value] : texts) table.insert(name, value);
  return table;
}

bool has_option(const std::vector<std::string>& words, const std::string& option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word == option || word.starts_with(option + "=");
  });
}

// Of mounts, in the command; "${NAME}" is the shell's.
void check_marks(const Job& job) {
  static const std::regex mount_mark(R"((^|[^$])\{([A-Za-z0-9_.-]+)\})");
  for (const auto& word : job.command) {
    for (std::sregex_iterator mark(word.begin(), word.end(), mount_mark), end; mark != end;
         ++mark) {
      const std::string name = (*mark)[2];
      std::vector<std::string> names;
      for (const auto& [known, path] : job.mounts) names.push_back("{" + known + "}");
      require(job.mounts.contains(name),
              fmt::format("'{}': {{{}}} is no --mount; there {} {}", word, name,
                          names.size() == 1 ? "is" : "are", fmt::join(names, ", ")));
    }
  }
}

}  // namespace

void check(const Job& job) {
  require(!job.command.empty(),
          "no program given: sullae jobs submit [OPTIONS] PROGRAM [ARGUMENTS...]");
  require(
      is_name(job.name),
      fmt::format("--name '{}': expected at most 64 letters, digits, '-', '_' and '.'", job.name));
  require(job.min_nodes >= 1 && job.min_nodes <= job.max_nodes && job.max_nodes <= kMostNodes,
          fmt::format("--min-nodes {}, --max-nodes {}: expected them in this order, from 1 to {}",
                      job.min_nodes, job.max_nodes, kMostNodes));
  require(job.ranks_per_node >= 1 && job.ranks_per_node <= kMostRanks,
          fmt::format("--ranks-per-node {}: expected 1 to {}", job.ranks_per_node, kMostRanks));
  require(job.cpus_per_rank >= 1 && job.cpus_per_rank <= kMostRanks,
          fmt::format("--cpus-per-rank {}: expected 1 to {}", job.cpus_per_rank, kMostRanks));
  require(job.attempts >= 1 && job.attempts <= kMostAttempts,
          fmt::format("--attempts {}: expected 1 to {}", job.attempts, kMostAttempts));
  auto words = job.command;
  words.insert(words.end(), job.engine_options.begin(), job.engine_options.end());
  words.push_back(job.directory);
  for (const auto& [name, value] : job.environment) words.insert(words.end(), {name, value});
  for (const auto& [name, path] : job.mounts) words.push_back(path);
  for (const std::string& word : words)
    require(find_invalid_utf8(word) == std::string::npos,
            fmt::format("'{}' is no UTF-8, and job.toml, which keeps the job, is",
                        replace_invalid_utf8(word)));
  require(job.priority.empty() || is_priority(job.priority),
          fmt::format("--priority '{}': expected high, low or a whole number up to {}",
                      job.priority, std::numeric_limits<std::uint32_t>::max()));
  const Time begin = job.begin.empty() ? 0 : parse_time(job.begin, "--begin");
  require(job.deadline.empty() || begin < parse_time(job.deadline, "--deadline"),
          fmt::format("--begin {}, --deadline {}: expected them in this order", job.begin,
                      job.deadline));
  for (const auto& [name, path] : job.mounts) {
    require(is_name(name),
            fmt::format("--mount '{}': expected NAME=PATH, a name of letters, digits, "
                        "'-', '_' and '.'",
                        name));
    require(std::filesystem::path(path).is_absolute(),
            fmt::format("--mount {}={}: expected a path from the root", name, path));
  }
  if (!job.mounts.empty()) check_marks(job);
}

std::string to_toml(const Job& job) {
  toml::table table{
      {"name", job.name},
      {"command", to_array(job.command)},
      {"directory", job.directory},
      {"min-nodes", job.min_nodes},
      {"max-nodes", job.max_nodes},
      {"ranks-per-node", job.ranks_per_node},
      {"cpus-per-rank", job.cpus_per_rank},
      {"attempts", job.attempts},
  };
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) table.insert(name, value);
  };
  add("priority", job.priority);
  if (job.time) table.insert("time", format_time_limit(*job.time));
  add("begin", job.begin);
  add("deadline", job.deadline);
  add("after", job.after);
  add("idempotency-key", job.idempotency_key);
  if (!job.engine_options.empty()) table.insert("engine-options", to_array(job.engine_options));
  if (!job.environment.empty()) table.insert("env", to_table(job.environment));
  if (!job.mounts.empty()) table.insert("mount", to_table(job.mounts));
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

Job read_job(const std::filesystem::path& path, Job job) {
  const TomlFile file(path);
  const toml::table table = file.parse();
  for (const char* const other : {"min-nodes", "max-nodes"}) {
    if (const auto* const node = table.get(other); node != nullptr && table.contains("nodes"))
      file.fail(*node, fmt::format("nodes and {}: expected one of them", other));
  }
  file.apply(table, {{"name", file.text_into(job.name)},
                     {"command", file.texts_into(job.command)},
                     {"directory", file.text_into(job.directory)},
                     {"nodes",
                      [&](const toml::node& node) {
                        job.min_nodes = job.max_nodes =
                            static_cast<int>(file.integer(node, 1, kMostNodes));
                      }},
                     {"min-nodes", file.integer_into(job.min_nodes, 1, kMostNodes)},
                     {"max-nodes", file.integer_into(job.max_nodes, 1, kMostNodes)},
                     {"ranks-per-node", file.integer_into(job.ranks_per_node, 1, kMostRanks)},
                     {"cpus-per-rank", file.integer_into(job.cpus_per_rank, 1, kMostRanks)},
                     {"attempts", file.integer_into(job.attempts, 1, kMostAttempts)},
                     {"priority",
                      [&](const toml::node& node) {
                        job.priority =
                            node.is_integer()
                                ? fmt::to_string(file.integer(node, 0, std::int64_t{1} << 32))
                                : file.text(node);
                      }},
                     {"time",
                      [&](const toml::node& node) {
                        const auto text = file.text(node);
                        try {
                          job.time = parse_time_limit(text, "time");
                        } catch (const InputError& error) {
                          file.fail(node, error.what());
                        }
                      }},
                     {"begin", file.text_into(job.begin)},
                     {"deadline", file.text_into(job.deadline)},
                     {"after", file.text_into(job.after)},
                     {"idempotency-key", file.text_into(job.idempotency_key)},
                     {"engine-options", file.texts_into(job.engine_options)},
                     {"env", file.pairs_into(job.environment)},
                     {"mount", file.pairs_into(job.mounts)}});
  return job;
}

std::chrono::seconds parse_time_limit(std::string_view text, std::string_view what) {
  const auto wrong = [&]() -> InputError {
    return InputError(
        fmt::format("{} '{}': expected minutes, or as in 90m, 2h, 30s, 1:30:00 or "
                    "1-12:00:00 (days), above 0",
                    what, text));
  };
  const auto number = [&](std::string_view digits) {
    const auto value = number_in<std::int64_t>(digits).value_or(-1);
    if (value < 0 || value > 100'000'000) throw wrong();
    return value;
  };
  if (text.empty()) throw wrong();
  std::int64_t seconds = 0;
  const std::string_view units = "smhd";
  constexpr std::int64_t kSeconds[] = {1, 60, 3600, 86400};
  if (const auto unit = units.find(text.back()); unit != std::string_view::npos) {
    seconds = number(text.substr(0, text.size() - 1)) * kSeconds[unit];
  } else {
    std::string_view clock = text;
    const auto dash = text.find('-');
    if (dash != std::string_view::npos) {
      seconds = number(text.substr(0, dash)) * 86400;
      clock = text.substr(dash + 1);
    }
    const auto parts = split(clock, ':');
    if (parts.empty() || parts.size() > 3 || text.back() == ':') throw wrong();
    // Slurm's forms: minutes, minutes:seconds, hours:minutes:seconds; after days, hours first.
    std::int64_t length = dash != std::string_view::npos || parts.size() == 3 ? 3600 : 60;
    for (const auto& part : parts) {
      seconds += number(part) * length;
      length /= 60;
    }
  }
  if (seconds <= 0) throw wrong();
  return std::chrono::seconds{seconds};
}

std::string format_time_limit(std::chrono::seconds limit) {
  const auto days = limit.count() / 86400;
  const auto rest = limit.count() % 86400;
  const auto clock = fmt::format("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? fmt::format("{}-{}", days, clock) : clock;
}

std::vector<std::string> command_of_attempt(const Job& job, const std::filesystem::path& folder,
                                            int attempt) {
  auto words = job.command;
  for (auto& word : words) {
    for (const auto& [name, path] : job.mounts) {
      const auto mark = "{" + name + "}";
      for (auto at = word.find(mark); at != std::string::npos;) {
        const bool is_the_shells = at > 0 && word[at - 1] == '$';
        if (!is_the_shells) word.replace(at, mark.size(), path);
        at = word.find(mark, at + (is_the_shells ? mark : path).size());
      }
    }
  }
  const bool trains = words.size() > 1 && std::filesystem::path(words[0]).filename() == "sullae" &&
                      words[1] == "train";
  if (!trains) return words;
  if (!has_option(words, "--checkpoint-dir")) {
    words.insert(words.end(), {"--checkpoint-dir", (folder / "checkpoints").string()});
  }
  if (!has_option(words, "--report"))
    words.insert(words.end(), {"--report", (folder / "report.json").string()});
  if (!has_option(words, "--run-dir"))
    words.insert(words.end(), {"--run-dir", JobFolder(folder).run().string()});
  if (attempt > 1 && !has_option(words, "--resume")) words.emplace_back("--resume");
  return words;
}

}  // namespace sullae::cluster
