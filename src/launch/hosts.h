// Hosts and the ranks that they take.
#pragma once

#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace sullae {

struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};

/// "node1:4,node2:4"; a host without a number has one slot. Throws InputError, which says `where`
/// the text is from.
std::vector<Host> parse_hosts(std::string_view text, const std::string& where = "-H");

/// A file with a host a line: "node1 slots=4", "node1:4" or "node1"; # starts a comment. Throws
/// InputError naming file and line.
std::vector<Host> read_hostfile(const std::filesystem::path& file);

/// The same lines of another source, which `source` names in messages; perhaps none.
std::vector<Host> parse_host_lines(std::istream& stream, const std::string& source);

/// True for the names of this host.
bool is_this_host(std::string_view name);

/// The host of each rank: hosts are filled in order. Throws InputError where there are more ranks
/// than slots.
struct Placement {
  Host host;
  std::vector<int> ranks;
};
std::vector<Placement> place_ranks(const std::vector<Host>& hosts, int ranks);

}  // namespace sullae
