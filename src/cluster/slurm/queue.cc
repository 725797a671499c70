// What squeue and sinfo print.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "base/local_time.h"
#include "cluster/slurm/slurm_engine.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

constexpr char kSeparator = '|';

// The last field may have separators in it.
std::vector<std::string> fields_of(const std::string& line, std::size_t count) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  std::string field;
  while (fields.size() + 1 < count && std::getline(stream, field, kSeparator))
    fields.push_back(field);
  if (std::getline(stream, field)) fields.push_back(field);
  fields.resize(count);
  return fields;
}

std::int64_t integer_of(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "N/A" of what is not known.
std::int64_t time_of(const std::string& text) {
  try {
    return parse_time(text, "");
  } catch (const InputError&) {
    return 0;
  }
}

std::optional<std::chrono::seconds> duration_of(const std::string& text) {
  try {
    return parse_time_limit(text, "");
  } catch (const InputError&) {  // UNLIMITED, INVALID
    return std::nullopt;
  }
}

EngineState state_of(const std::string& word) {
  static const std::map<std::string, EngineState> states = {
      {"PENDING", EngineState::pending},        {"CONFIGURING", EngineState::pending},
      {"REQUEUED", EngineState::pending},       {"REQUEUE_HOLD", EngineState::pending},
      {"REQUEUE_FED", EngineState::pending},    {"SPECIAL_EXIT", EngineState::pending},
      {"RESV_DEL_HOLD", EngineState::pending},  {"RUNNING", EngineState::running},
      {"COMPLETING", EngineState::running},     {"SUSPENDED", EngineState::running},
      {"STOPPED", EngineState::running},        {"SIGNALING", EngineState::running},
      {"STAGE_OUT", EngineState::running},      {"RESIZING", EngineState::running},
      {"COMPLETED", EngineState::ended},        {"CANCELLED", EngineState::cancelled},
      {"REVOKED", EngineState::cancelled},      {"PREEMPTED", EngineState::preempted},
      {"TIMEOUT", EngineState::timed_out},      {"OUT_OF_MEMORY", EngineState::out_of_memory},
      {"NODE_FAIL", EngineState::node_lost},    {"BOOT_FAIL", EngineState::node_lost},
      {"DEADLINE", EngineState::past_deadline},
  };
  const auto found = states.find(word);
  return found == states.end() ? EngineState::failed : found->second;
}

// "rack[0-1]-blade[0-41]" has a range for each bracket.
void expand_name(const std::string& name, std::vector<std::string>& hosts) {
  const auto open = name.find('[');
  const auto close = name.find(']');
  if (open == std::string::npos || close == std::string::npos) {
    hosts.push_back(name);
    return;
  }
  std::istringstream ranges(name.substr(open + 1, close - open - 1));
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
    for (auto number = integer_of(first); number <= integer_of(last); ++number)
      expand_name(fmt::format("{}{:0{}}{}", name.substr(0, open), number, first.size(),
                              name.substr(close + 1)),
                  hosts);
  }
}

}  // namespace

// Job, state, nodes, submitted, started, time left, node list, reason, comment.
const char* const kQueueFormat = "%i|%T|%D|%V|%S|%L|%N|%r|%k";

std::vector<EngineJob> parse_queue(std::string_view text, const std::string& jobs) {
  std::vector<EngineJob> found;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto fields = fields_of(line, 9);
    const auto mark = Mark::parse(fields[8]);
    if (!mark || mark->jobs != jobs) continue;
    found.push_back({.id = fields[0],
                     .mark = *mark,
                     .state = state_of(fields[1]),
                     .reason = fields[1] == "CONFIGURING" ? "its nodes are starting"
                               : fields[7] == "None"      ? ""
                                                          : fields[7],
                     .nodes = static_cast<int>(integer_of(fields[2])),
                     .hosts = expand_hosts(fields[6]),
                     .submitted = time_of(fields[3]),
                     .started = time_of(fields[4]),
                     .time_left = duration_of(fields[5])});
  }
  return found;
}

// Name, partition, state, processors allocated/idle/other/all, memory, reason.
const char* const kNodeFormat = "%N|%P|%T|%C|%m|%E";

std::vector<Node> parse_nodes(std::string_view text) {
  std::vector<Node> nodes;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto fields = fields_of(line, 6);
    const bool is_default = fields[1].ends_with('*');
    const std::string partition = fields[1].substr(0, fields[1].size() - (is_default ? 1 : 0));
    const auto known = std::ranges::find(nodes, fields[0], &Node::name);
    if (known != nodes.end()) {
      known->partitions[partition] = is_default;
      continue;
    }
    std::istringstream cpus(fields[3]);
    std::string allocated;
    std::string idle;
    std::string other;
    std::string all;
    std::getline(cpus, allocated, '/');
    std::getline(cpus, idle, '/');
    std::getline(cpus, other, '/');
    std::getline(cpus, all, '/');
    nodes.push_back({.name = fields[0],
                     .partitions = {{partition, is_default}},
                     .state = fields[2],
                     .cpus = static_cast<int>(integer_of(all)),
                     .idle_cpus = static_cast<int>(integer_of(idle)),
                     .memory_mb = integer_of(fields[4]),
                     .reason = fields[5] == "none" ? "" : fields[5]});
  }
  return nodes;
}

std::vector<std::string> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  // Commas within brackets divide ranges, others hosts.
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) expand_name(std::string(list.substr(begin, i - begin)), hosts);
    begin = i + 1;
  }
  return hosts;
}

}  // namespace sullae::cluster
