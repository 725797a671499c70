// init() under each launcher's variables, in processes of their own.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/failpoint.h"
#include "support/errors.h"
#include "support/free_ports.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

// Prints "rank size sum" after an allreduce of rank + 1.
const std::vector<std::string> kProgram{INIT_PROGRAM};

void expect_two_ranks(std::map<std::string, std::string> first,
                      std::map<std::string, std::string> second) {
  Program other(kProgram, second);
  const auto result = run_program(kProgram, first);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(result.standard_output, "rank 0 of 2, sum 3\n");
  EXPECT_EQ(other.wait().standard_output, "rank 1 of 2, sum 3\n");
}

TEST(Init, AloneIsAWorldOfOne) {
  EXPECT_EQ(run_program(kProgram).standard_output, "rank 0 of 1, sum 1\n");
}

TEST(Init, UnderTorchrun) {
  const auto port = free_ports(1)[0];
  const auto variables = [&](const char* rank) {
    return std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  };
  expect_two_ranks(variables("0"), variables("1"));
}

TEST(Init, AnInterruptionMayAskForTheWorldThatIsNotThereYet) {
  const std::map<std::string, std::string> alone = {{"RANK", "1"},
                                                    {"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"MASTER_PORT", free_ports(1)[0]}};
  EXPECT_EQ(run_program({INIT_PROGRAM, "interrupted"}, alone).standard_output, "interrupted\n");
}

// After an error the library can be left and joined again in the same process: with a store that
// the launcher serves, and with one that rank 0 serves.
TEST(Init, MayBeDoneAgainAfterAnError) {
  const TemporaryDirectory directory;
  const std::string first =
      "rank 0 of 2, sum 3\nrank 1 has left the world\nrank 0 of 2, sum 3\n"
      "rank 1 has left the world\nrank 0 of 2, sum 3\n";
  const auto job = run_program({sullae_program(), "run", "-np", "2", "--output-dir",
                                directory.path(), INIT_PROGRAM, "again"});
  EXPECT_EQ(job.exit_code, 0) << job.standard_error;
  std::stringstream log;
  log << std::ifstream(directory.path() / "rank-0.log").rdbuf();
  EXPECT_EQ(log.str(), first);

  const auto port = free_ports(1)[0];
  const auto variables = [&](const char* rank) {
    return std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  };
  Program other({INIT_PROGRAM, "again"}, variables("1"));
  const auto result = run_program({INIT_PROGRAM, "again"}, variables("0"));
  EXPECT_EQ(result.standard_output, first) << result.standard_error;
  EXPECT_EQ(other.wait().exit_code, 0);
}

TEST(Init, UnderOpenMpi) {
  const auto job = unique_mark();
  const auto variables = [&](const char* rank) {
    return std::map<std::string, std::string>{{"OMPI_COMM_WORLD_RANK", rank},
                                              {"OMPI_COMM_WORLD_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                              {"PMIX_NAMESPACE", job}};
  };
  expect_two_ranks(variables("0"), variables("1"));
}

TEST(Init, UnderPmi) {
  const auto variables = [&](const char* rank) {
    return std::map<std::string, std::string>{
        {"PMI_RANK", rank}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  };
  expect_two_ranks(variables("0"), variables("1"));
}

TEST(Init, UnderSlurm) {
  const auto variables = [&](const char* rank) {
    return std::map<std::string, std::string>{{"SLURM_PROCID", rank},
                                              {"SLURM_STEP_NUM_TASKS", "2"},
                                              {"SLURM_JOB_ID", "4242"},
                                              {"SLURM_STEP_ID", "7"},
                                              {"SLURM_STEP_NUM_NODES", "1"}};
  };
  expect_two_ranks(variables("0"), variables("1"));
}

TEST(Init, UnderTfConfig) {
  const auto port = free_ports(1)[0];
  const auto variables = [&](const char* index) {
    return std::map<std::string, std::string>{
        {"TF_CONFIG", R"({"cluster": {"worker": ["127.0.0.1:)" + port +
                          R"(", "127.0.0.1:1"]}, "task": {"type": "worker", "index": )" + index +
                          "}}"}};
  };
  expect_two_ranks(variables("0"), variables("1"));
}

TEST(Init, MpiMustHaveStartedTheRanks) {
  const auto result = run_program(
      {sullae_program(), "run", "-np", "2", "--env", "SULLAE_TRANSPORT=mpi", INIT_PROGRAM});
  EXPECT_NE(result.exit_code, 0);
  const bool built = contains(result.standard_error,
                              "of 1 of MPI_COMM_WORLD: start the program with mpirun or srun");
  const bool absent =
      contains(result.standard_error, "SULLAE_TRANSPORT='mpi': expected one of auto, shm, ucx");
  EXPECT_TRUE(built || absent) << result.standard_error;
}

TEST(Init, APortInUseIsNamed) {
  Program holder({INIT_PROGRAM, "hold-port"});
  ASSERT_TRUE(holder.wait_for_output("\n"));
  std::string port = holder.output();
  port.pop_back();
  const auto result = run_program(
      kProgram,
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "cannot listen on 127.0.0.1:" + port +
                                                  ": the address is in use by another program"))
      << result.standard_error;
}

TEST(Init, ARankThatDoesNotComeIsNamed) {
  const auto result = run_program(kProgram, {{"SULLAE_RANK", "0"},
                                             {"SULLAE_SIZE", "2"},
                                             {"SULLAE_STORE", "unix:" + unique_mark()},
                                             {"SULLAE_RENDEZVOUS_TIMEOUT", "0.3"}});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(
      contains(result.standard_error,
               "waited for rank 1, which did not come within 0.3 s (SULLAE_RENDEZVOUS_TIMEOUT)"))
      << result.standard_error;
}

// Without a launcher that would end it, a rank notices by itself that another was killed.
std::size_t files_in_shared_memory() {
  const std::filesystem::directory_iterator entries("/dev/shm");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

TEST(Init, ARankThatIsKilledIsNamedWhateverIsGoingOn) {
  for (const std::string transport : {"shm", "ucx"}) {
    for (const std::string mode :
         {"wait", "wait-in-negotiation", "wait-in-a-stream", "wait-for-later", "wait-for-message",
          "wait-for-its-message", "wait-for-receiver"}) {
      SCOPED_TRACE(transport + " " + mode);
      const auto before = files_in_shared_memory();
      const auto store = "unix:" + unique_mark();
      const auto variables = [&](const char* rank) {
        return std::map<std::string, std::string>{{"SULLAE_RANK", rank},
                                                  {"SULLAE_SIZE", "2"},
                                                  {"SULLAE_STORE", store},
                                                  {"SULLAE_TRANSPORT", transport}};
      };
      Program victim({INIT_PROGRAM, mode}, variables("1"));
      Program waiting({INIT_PROGRAM, mode}, variables("0"));
      ASSERT_TRUE(victim.wait_for_output("joined"));
      ASSERT_TRUE(waiting.wait_for_output("joined"));
      victim.signal(SIGKILL);
      const auto result = waiting.wait(std::chrono::seconds{30});
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_TRUE(contains(result.standard_error, "rank 1")) << result.standard_error;
      EXPECT_TRUE(contains(result.standard_error, "while rank 0 waited for it"))
          << result.standard_error;
      if (transport == "shm") {
        EXPECT_TRUE(contains(result.standard_error,
                             "rank 1 (process " + std::to_string(victim.pid()) + " on "))
            << result.standard_error;
      }
      // Tests that run beside this one have files there too, for a while.
      wait_until([&] { return files_in_shared_memory() <= before; });
    }
  }
}

// Whichever step of the rendezvous a rank dies in: the others are told, and nothing is left.
TEST(Init, ARankThatDiesInTheRendezvousIsNamed) {
  for (const auto moment : kFailpoints) {
    if (!moment.starts_with("rendezvous.")) continue;
    SCOPED_TRACE(moment);
    const auto result =
        run_program({sullae_program(), "run", "-np", "3", "sh", "-c",
                     "[ \"$SULLAE_RANK\" = 1 ] && export SULLAE_CRASH_AT=" + std::string(moment) +
                         "; exec " + INIT_PROGRAM},
                    {{"SULLAE_RENDEZVOUS_TIMEOUT", "20"}});
    EXPECT_EQ(result.exit_code, 128 + SIGKILL);
    EXPECT_TRUE(contains(result.standard_error, "rank 1 (process")) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_error, "was killed by signal 9")) << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing
