// A way of one's own to start agents on hosts, from outside, as docs/extending.md shows it.
#include "launch/host_launcher.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

// Hosts "pretended-…" are this one; those of "pretended-far-…" have no process here that could be
// waited for.
class Pretended final : public HostLauncher {
 public:
  explicit Pretended(std::string host) : host_(std::move(host)) {}
  AgentChannel start(const std::vector<std::string>& agent) override {
    EXPECT_EQ(agent.back(), "agent");
    if (host_ == "pretended-broken") throw Error("pretended-broken: no such machine");
    AgentChannel channel = open_channel({sullae_program(), "agent"});
    if (host_.starts_with("pretended-far")) channel.pid = 0;
    return channel;
  }

 private:
  std::string host_;
};

class HostLauncherTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_host_launcher(
        [](const std::string& host, const JobOptions&) -> std::unique_ptr<HostLauncher> {
          if (!host.starts_with("pretended-")) return nullptr;
          return std::make_unique<Pretended>(host);
        });
  }
  JobOptions job(std::vector<Host> hosts, const std::string& script) {
    return {.command = {"sh", "-c", script},
            .ranks = static_cast<int>(hosts.size()),
            .hosts = std::move(hosts),
            .environment = {{"FOLDER", directory_.path().string()}},
            .store_host = "127.0.0.1"};
  }
  bool was_written(const std::string& name) const {
    return std::filesystem::exists(directory_.path() / name);
  }
  TemporaryDirectory directory_;
};

TEST_F(HostLauncherTest, OfOnesOwnStartsRanks) {
  EXPECT_EQ(run_job(job({{"pretended-a"}, {"pretended-far-b"}, {"pretended-c"}},
                        "touch $FOLDER/$SULLAE_RANK")),
            0);
  for (const char* rank : {"0", "1", "2"}) EXPECT_TRUE(was_written(rank));
}

TEST_F(HostLauncherTest, ThatFailsEndsTheJob) {
  const auto error = error_of([&] {
    run_job(job({{"pretended-a"}, {"pretended-broken"}}, "touch $FOLDER/started"));
  });
  EXPECT_EQ(error, "pretended-broken: no such machine");
  EXPECT_FALSE(was_written("started"));
}

TEST_F(HostLauncherTest, ARankThatFailsEndsTheOthersOnEveryHost) {
  EXPECT_EQ(run_job(job({{"pretended-a"}, {"pretended-far-b"}},
                        "[ $SULLAE_RANK = 1 ] && exit 7; sleep 100; touch $FOLDER/survived")),
            7);
  EXPECT_FALSE(was_written("survived"));
}

TEST_F(HostLauncherTest, AHostIsNotLostWhereItsRanksHaveEnded) {
  std::vector<std::string> gone;
  JobOptions options = job({{"pretended-a"}, {"pretended-b"}},
                           R"(if [ $SULLAE_RANK = 0 ]; then
                                echo $PPID > $FOLDER/part; mv $FOLDER/part $FOLDER/agent; exit 0
                              fi
                              while [ ! -e $FOLDER/agent ]; do sleep 0.05; done
                              while [ -e /proc/$(cat $FOLDER/agent)/fd/0 ]; do sleep 0.05; done
                              sleep 1; exit 7)");
  options.on_host_gone = [&](const std::string& host) {
    gone.push_back(host);
  };
  EXPECT_EQ(run_job(options), 7);
  EXPECT_EQ(gone, std::vector<std::string>{});
}

TEST_F(HostLauncherTest, AnElasticJobFailsWhereAHostIsLostWhileItEnds) {
  std::vector<std::string> gone;
  JobOptions options = job({{"pretended-a"}, {"pretended-b"}}, "");
  options.command = {INIT_PROGRAM, "lose-host"};
  options.elastic = JobOptions::Elastic{.min_ranks = 1, .max_ranks = 2};
  options.timeout = std::chrono::minutes{1};
  options.on_host_gone = [&](const std::string& host) {
    gone.push_back(host);
  };
  EXPECT_EQ(run_job(options), 1);
  EXPECT_EQ(gone.size(), 1U);
}

}  // namespace
}  // namespace sullae::testing
