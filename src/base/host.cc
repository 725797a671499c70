#include "base/host.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/cpu_quota.h"

namespace sullae {
namespace {

std::string namespace_of(const char* kind) {
  struct stat info {};
  const std::string path = std::string("/proc/self/ns/") + kind;
  if (::stat(path.c_str(), &info) != 0) return "0";
  return std::to_string(info.st_ino);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown-host";
  return name.data();
}

std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  return host_name() + '/' + boot_id + '/' + namespace_of("net") + '/' + namespace_of("pid");
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  }
  return cpus;
}

int available_cpus() {
  const auto cpus = static_cast<int>(allowed_cpus().size());
  return std::min(cpus, cpu_quota().value_or(cpus));
}

std::int64_t peak_memory() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != "VmHWM:") continue;
    std::int64_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace sullae
