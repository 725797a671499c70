#include "ps/state_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "sullae/error.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

// Then the number of bytes of a JSON text, that text, and the arrays in its order.
constexpr std::string_view kMagic = "sullae parameter server 1\n";

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw CheckpointError(
      fmt::format("{}: {}: expected what a parameter server has saved", file.string(), what));
}

std::string read_bytes(std::ifstream& stream, std::size_t bytes) {
  std::string text(bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(bytes));
  return stream ? text : std::string();
}

Shard shard_of(const json& saved, const Rule& rule, int staleness) {
  Shard shard(saved.at("ranges").get<std::vector<std::size_t>>(), rule, staleness);
  shard.restore(saved.at("numbers"));
  return shard;
}

HeldState read_state(const std::filesystem::path& file, std::ifstream& stream, int staleness) {
  std::uint64_t bytes = 0;
  const auto size = std::filesystem::file_size(file);
  if (read_bytes(stream, kMagic.size()) != kMagic) refuse(file, "is another kind of file");
  stream.read(reinterpret_cast<char*>(&bytes), sizeof bytes);
  if (!stream || bytes > size) refuse(file, "is torn");
  const json head = json::parse(read_bytes(stream, bytes));
  const int saved = head.at("staleness").get<int>();
  if (saved != staleness)
    throw InputError(fmt::format("{}: is of servers with staleness {}: expected {}", file.string(),
                                 saved, staleness));
  HeldState state;
  state.rule = rule_of(head.at("rule"));
  head.at("job").get_to(state.job);
  head.at("living").get_to(state.living);
  head.at("counted").get_to(state.counted);
  for (const json& one : head.at("slices"))
    state.shards.emplace(one.at("id").get<std::uint32_t>(), shard_of(one, state.rule, staleness));
  for (auto& [id, shard] : state.shards) {
    for (const auto& array : shard.arrays())
      stream.read(reinterpret_cast<char*>(array.data()),
                  static_cast<std::streamsize>(array.size_bytes()));
  }
  if (!stream || static_cast<std::uintmax_t>(stream.tellg()) != size) refuse(file, "is torn");
  return state;
}

}  // namespace

void save_state(const std::filesystem::path& file, const Rule& rule,
                std::map<std::uint32_t, Shard>& shards, const SavedMembers& members) {
  json head{{"rule", to_json(rule)},
            {"living", members.living},
            {"counted", members.counted},
            {"job", members.job},
            {"slices", json::array()}};
  for (const auto& [id, shard] : shards) {
    head["staleness"] = shard.staleness();
    head["slices"].push_back({{"id", id}, {"ranges", shard.sizes()}, {"numbers", shard.numbers()}});
  }
  const std::string text = head.dump();
  const std::uint64_t bytes = text.size();
  AtomicFile out(file);
  out.write(kMagic.data(), kMagic.size());
  out.write(&bytes, sizeof bytes);
  out.write(text.data(), text.size());
  for (auto& [id, shard] : shards) {
    for (const auto& array : shard.arrays()) out.write(array.data(), array.size_bytes());
  }
  out.commit();
}

std::optional<HeldState> load_state(const std::filesystem::path& file, int staleness) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  try {
    return read_state(file, stream, staleness);
  } catch (const json::exception&) {  // which says nothing of the file
    refuse(file, "is torn");
  }
}

}  // namespace sullae::ps
