#include "base/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/split.h"

namespace sullae {
namespace {

namespace fs = std::filesystem;

// The first words of a file.
double number_of_file(const fs::path& file) {
  double number = 0;
  std::ifstream(file) >> number;
  return number;
}

// "400000 100000", or "max 100000".
double quota_of_version_2(const fs::path& folder) {
  std::string quota;
  double period = 0;
  std::ifstream(folder / "cpu.max") >> quota >> period;
  return period > 0 ? std::strtod(quota.c_str(), nullptr) / period : 0;
}

// -1 for none.
double quota_of_version_1(const fs::path& folder) {
  const double period = number_of_file(folder / "cpu.cfs_period_us");
  return period > 0 ? number_of_file(folder / "cpu.cfs_quota_us") / period : 0;
}

// The least of a group and those that it is in; 0 for none.
template <class QuotaOf>
double least(const fs::path& root, const std::string& group, const QuotaOf& quota_of) {
  double least = 0;
  fs::path path = root / fs::path(group).relative_path();
  for (;;) {
    if (const double quota = quota_of(path); quota > 0)
      least = least > 0 ? std::min(least, quota) : quota;
    if (path == root || path == path.parent_path()) return least;
    path = path.parent_path();
  }
}

}  // namespace

std::optional<int> cpu_quota(const fs::path& cgroups, const fs::path& root) {
  double quota = 0;
  std::ifstream file(cgroups);
  for (std::string line; std::getline(file, line);) {
    // "0::/group", or "4:cpu,cpuacct:/group".
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto group = line.substr(second + 1);
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    if (line.starts_with("0::")) {
      quota = least(root, group, quota_of_version_2);
    } else if (std::ranges::count(controllers, "cpu") > 0) {
      quota = least(root / "cpu", group, quota_of_version_1);
    }
    if (quota > 0) return std::max(1, static_cast<int>(std::ceil(quota)));
  }
  return std::nullopt;
}

}  // namespace sullae
