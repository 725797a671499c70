// Hosts with a network between them, on this machine.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {

/// Two hosts: namespaces joined by a veth pair. Skips, loudly, without root.
class TwoNetworks : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(shell_) << "#!/bin/sh\nhost=$1; shift; exec ip netns exec $host sh -c \"$*\"\n";
    std::filesystem::permissions(shell_, std::filesystem::perms::owner_all);
    const auto id = std::to_string(::getpid());
    a_ = "sla" + id;
    b_ = "slb" + id;
    // The kernel notices a carrier a moment after the devices are up.
    const auto made = run_program({"sh", "-ec",
                                   R"(
      ip netns add $1
      ip netns add $2
      ip link add v0 netns $1 type veth peer name v1 netns $2
      ip -n $1 addr add 10.78.0.1/24 dev v0
      ip -n $2 addr add 10.78.0.2/24 dev v1
      for host in $1 $2; do ip -n $host link set lo up; done
      ip -n $1 link set v0 up
      ip -n $2 link set v1 up
      for try in $(seq 200); do
        up=$(ip netns exec $1 cat /sys/class/net/v0/operstate)
        up=$up$(ip netns exec $2 cat /sys/class/net/v1/operstate)
        [ $up = upup ] && exit 0
        sleep 0.05
      done
      exit 1
    )",
                                   "sh", a_, b_});
    if (made.exit_code != 0) {
      GTEST_SKIP() << "SKIPPED: two networks need root and network namespaces: "
                   << made.standard_error;
    }
  }
  void TearDown() override {
    for (const auto& host : {a_, b_}) run_program({"ip", "netns", "del", host});
  }

  // Of `sullae run` on the first host, which starts agents on both.
  std::vector<std::string> words(const std::vector<std::string>& flags,
                                 const std::vector<std::string>& program) {
    std::vector<std::string> all{"ip", "netns", "exec", a_, sullae_program(), "run"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--store-host", "10.78.0.1", "--rsh", shell_.string()});
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  static std::map<std::string, std::string> over_tcp() { return {{"UCX_TLS", "tcp,self"}}; }

  TemporaryDirectory directory_;
  std::filesystem::path shell_ = directory_.path() / "rsh";
  std::string a_;
  std::string b_;
};

}  // namespace sullae::testing
