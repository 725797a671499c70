#include <gtest/gtest.h>

#include "cluster/slurm/slurm_engine.h"

namespace sullae::cluster {
namespace {

using Words = std::vector<std::string>;

TEST(Hosts, AreExpanded) {
  EXPECT_EQ(expand_hosts(""), Words{});
  EXPECT_EQ(expand_hosts("head"), Words{"head"});
  EXPECT_EQ(expand_hosts("n[1-3,7],head"), (Words{"n1", "n2", "n3", "n7", "head"}));
  EXPECT_EQ(expand_hosts("r[1-2]-b[08-09]x,head"),
            (Words{"r1-b08x", "r1-b09x", "r2-b08x", "r2-b09x", "head"}));
  EXPECT_EQ(expand_hosts("gpu-[008-010]-x"), (Words{"gpu-008-x", "gpu-009-x", "gpu-010-x"}));
}

TEST(Queue, HasOursAlone) {
  const auto jobs = parse_queue(
      "12|RUNNING|2|2026-11-25T00:00:01|2026-11-25T00:00:05|59:30|n[1-2]|None|sullae:0000abcd:"
      "mnist-1:3:workers\n"
      "13|PENDING|1|2026-11-25T00:00:02|N/"
      "A|UNLIMITED||Resources|sullae:0000abcd:a-b-2:1:coordinator\n"
      "14|RUNNING|1|2026-11-25T00:00:02|N/A|UNLIMITED||None|sullae:ffffffff:other-1:1:coordinator\n"
      "15|RUNNING|1|2026-11-25T00:00:02|N/A|UNLIMITED||None|somebody's | comment\n"
      "16|RUNNING|1|2026-11-25T00:00:02|N/A|UNLIMITED||None|(null)\n"
      "torn\n",
      "0000abcd");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "12");
  EXPECT_EQ(jobs[0].mark.id, "mnist-1");
  EXPECT_EQ(jobs[0].mark.submission, 3);
  EXPECT_EQ(jobs[0].mark.role, Role::workers);
  EXPECT_EQ(jobs[0].state, EngineState::running);
  EXPECT_EQ(jobs[0].hosts, (Words{"n1", "n2"}));
  EXPECT_EQ(jobs[0].time_left, std::chrono::seconds{59 * 60 + 30});
  EXPECT_EQ(jobs[0].started - jobs[0].submitted, 4);
  EXPECT_EQ(jobs[1].state, EngineState::pending);
  EXPECT_EQ(jobs[1].reason, "Resources");
  EXPECT_FALSE(jobs[1].time_left);
  EXPECT_EQ(jobs[1].started, 0);
}

TEST(Queue, TellsSlurmsStatesApart) {
  const auto state = [](const std::string& word) {
    return parse_queue("1|" + word + "|1|N/A|N/A|0|n1|None|sullae:0:a-1:1:workers", "0")
        .at(0)
        .state;
  };
  EXPECT_EQ(state("COMPLETED"), EngineState::ended);
  EXPECT_EQ(state("FAILED"), EngineState::failed);
  EXPECT_EQ(state("PREEMPTED"), EngineState::preempted);
  EXPECT_EQ(state("TIMEOUT"), EngineState::timed_out);
  EXPECT_EQ(state("OUT_OF_MEMORY"), EngineState::out_of_memory);
  EXPECT_EQ(state("NODE_FAIL"), EngineState::node_lost);
  EXPECT_EQ(state("CANCELLED"), EngineState::cancelled);
  EXPECT_EQ(state("DEADLINE"), EngineState::past_deadline);
  EXPECT_EQ(state("COMPLETING"), EngineState::running);
  EXPECT_EQ(state("REQUEUED"), EngineState::pending);
}

TEST(Nodes, AreThereOnce) {
  const auto nodes = parse_nodes(
      "n1|low*|idle~|0/2/0/2|1000|none\n"
      "n1|high|idle~|0/2/0/2|1000|none\n"
      "n2|low|down*|2/0/0/2|1000|Not responding | [root]\n");
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].partitions, (std::map<std::string, bool>{{"low", true}, {"high", false}}));
  EXPECT_EQ(nodes[0].idle_cpus, 2);
  EXPECT_EQ(nodes[1].state, "down*");
  EXPECT_EQ(nodes[1].cpus, 2);
  EXPECT_EQ(nodes[1].idle_cpus, 0);
  EXPECT_EQ(nodes[1].reason, "Not responding | [root]");
}

}  // namespace
}  // namespace sullae::cluster
