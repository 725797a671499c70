#include "ps/server/state_file.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "sullae/error.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

// Then the number of bytes of a JSON text, that text, and the arrays in its order.
constexpr std::string_view kMagic = "sullae parameter server 4\n";

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError(
      fmt::format("{}: {}: expected what a parameter server has saved", file.string(), what));
}

std::string read_bytes(std::ifstream& stream, std::size_t bytes) {
  std::string text(bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(bytes));
  return stream ? text : std::string();
}

std::vector<std::unique_ptr<Group>> read_state(const ServerOptions& options, std::uint64_t job,
                                               Replies replies) {
  const auto& file = options.state_file;
  std::ifstream stream(file, std::ios::binary);
  std::uint64_t bytes = 0;
  const auto size = std::filesystem::file_size(file);
  const auto magic = read_bytes(stream, kMagic.size());
  if (magic != kMagic)
    refuse(file, magic.starts_with(kMagic.substr(0, kMagic.size() - 2))
                     ? "is of another version of Sullae"
                     : "is another kind of file");
  stream.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
  if (!stream || bytes > size) refuse(file, "is torn");
  const json head = json::parse(read_bytes(stream, bytes));
  const int saved = head.at("staleness").get<int>();
  if (saved != options.staleness)
    throw InputError(fmt::format("{}: is of servers with staleness {}: expected {}", file.string(),
                                 saved, options.staleness));
  // Before as much is asked for as a torn number says.
  const auto arrays = head.at("bytes").get<std::uintmax_t>();
  if (static_cast<std::uintmax_t>(stream.tellg()) + arrays != size) refuse(file, "is torn");
  const bool is_same_job = head.at("job").get<std::uint64_t>() == job && !options.secret.empty();
  std::vector<std::unique_ptr<Group>> groups;
  for (const json& one : head.at("groups")) {
    groups.push_back(Group::make(one, options, replies));
    groups.back()->restore(one, is_same_job);
    for (const auto& array : groups.back()->arrays())
      stream.read(reinterpret_cast<char*>(array.data()),
                  static_cast<std::streamsize>(array.size()));
    groups.back()->restored();
  }
  if (!stream || static_cast<std::uintmax_t>(stream.tellg()) != size) refuse(file, "is torn");
  return groups;
}

}  // namespace

UniqueFd own_state_file(const std::filesystem::path& file) {
  // Longer than one that was killed takes to be gone.
  const Deadline deadline(std::chrono::seconds{2}, "the limit of 2 s");
  constexpr mode_t kMode = 0666;
  auto path = file;
  path += ".lock";
  UniqueFd lock;
  try {
    lock = lock_file(path, kMode, deadline);
  } catch (const Error& error) {
    log::warning("{}: nothing keeps another parameter server from saving in {}", error.what(),
                 file.string());
    return {};
  }
  if (!lock)
    throw InputError(fmt::format(
        "{}: another parameter server saves there: expected a file, or a --ps-dir, of its own",
        file.string()));
  // What one that was killed while it saved has left.
  const std::string begin = file.filename().string() + ".tmp-";
  std::error_code error;
  for (const auto& entry : entries_of(std::filesystem::absolute(path).parent_path(), error)
                               .value_or(std::vector<std::filesystem::path>()))
    if (entry.filename().string().starts_with(begin)) std::filesystem::remove(entry, error);
  return lock;
}

void save_state(const ServerOptions& options, std::uint64_t job,
                const std::map<std::uint64_t, std::unique_ptr<Group>>& groups) {
  json head{{"staleness", options.staleness}, {"job", job}, {"groups", json::array()}};
  std::uintmax_t size = 0;
  for (const auto& [id, group] : groups) {
    head["groups"].push_back(group->description());
    for (const auto& array : group->arrays()) size += array.size();
  }
  head["bytes"] = size;
  const std::string text = head.dump();
  const std::uint64_t bytes = text.size();
  AtomicFile out(options.state_file);
  out.write(kMagic.data(), kMagic.size());
  out.write(&bytes, sizeof bytes);
  out.write(text.data(), text.size());
  for (const auto& [id, group] : groups) {
    for (const auto& array : group->arrays()) out.write(array.data(), array.size());
  }
  out.commit();
}

std::vector<std::unique_ptr<Group>> load_state(const ServerOptions& options, std::uint64_t job,
                                               Replies replies) {
  if (!std::filesystem::exists(options.state_file)) return {};
  try {
    return read_state(options, job, replies);
  } catch (const json::exception&) {  // which says nothing of the file
    refuse(options.state_file, "is torn");
  }
}

}  // namespace sullae::ps
