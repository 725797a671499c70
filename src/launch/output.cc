#include "launch/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "sullae/error.h"

namespace sullae {
namespace {

// A line that grows beyond this is written in pieces.
constexpr std::size_t kLongestLine = 65536;

constexpr int kColours[] = {36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91};

}  // namespace

RankOutput::RankOutput(OutputOptions options) : options_(std::move(options)) {
  if (options_.directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.directory, error);
  if (error)
    throw Error(fmt::format("--output-dir {}: {}", options_.directory.string(), error.message()));
}

RankOutput::~RankOutput() {
  std::vector<int> ranks;
  for (const auto& [key, line] : partial_) ranks.push_back(key.first);
  for (const int rank : ranks) finish(rank);
}

void RankOutput::write(int rank, int descriptor, std::string_view bytes) {
  if (!options_.directory.empty()) {
    auto& file = files_[rank];
    if (!file.is_open()) file.open(options_.directory / (name_of(rank) + ".log"), std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
  }
  std::string& line = partial_[{rank, descriptor}];
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    line.append(bytes.substr(0, end));
    if (end == std::string_view::npos && line.size() < kLongestLine) return;
    write_line(rank, descriptor, line);
    line.clear();
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

// "rank-3", "ps-0".
std::string RankOutput::name_of(int rank) const {
  return rank < options_.ranks ? fmt::format("rank-{}", rank)
                               : fmt::format("ps-{}", rank - options_.ranks);
}

void RankOutput::finish(int rank) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    const auto found = partial_.find({rank, descriptor});
    if (found == partial_.end()) continue;
    if (!found->second.empty()) write_line(rank, descriptor, found->second);
    partial_.erase(found);
  }
}

void RankOutput::write_line(int rank, int descriptor, std::string_view line) {
  std::string text;
  if (options_.tag) {
    const std::string tag = rank < options_.ranks ? fmt::to_string(rank) : name_of(rank);
    constexpr int kColourCount = sizeof kColours / sizeof kColours[0];
    text = options_.colour
               ? fmt::format("\x1b[{}m[{}]\x1b[0m {}\n", kColours[rank % kColourCount], tag, line)
               : fmt::format("[{}] {}\n", tag, line);
  } else {
    text = fmt::format("{}\n", line);
  }
  std::string_view rest = text;
  while (!rest.empty() && open_) {
    const auto n = ::write(descriptor, rest.data(), rest.size());
    if (n > 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      open_ = false;
    }
  }
}

}  // namespace sullae
