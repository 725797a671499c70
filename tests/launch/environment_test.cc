#include "launch/environment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

namespace sullae::testing {
namespace {

Environment variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

WorldOptions detect(std::map<std::string, std::string> values) {
  return detect_world(variables(std::move(values)));
}

std::string error_of(std::map<std::string, std::string> values) {
  try {
    detect(std::move(values));
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string local(const std::string& rest) { return "unix:sullae-" + rest; }

TEST(DetectWorld, WithNothingIsAWorldOfOne) {
  const auto options = detect({});
  EXPECT_EQ(options.rank, 0);
  EXPECT_EQ(options.size, 1);
}

TEST(DetectWorld, KnowsWhetherThereIsALauncher) {
  // A batch script is one process, whatever it starts later.
  EXPECT_FALSE(is_launched(
      variables({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"RANK", "3"}, {"PATH", "/bin"}})));
  EXPECT_TRUE(is_launched(variables({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
  EXPECT_TRUE(is_launched(variables({{"RANK", "0"}, {"WORLD_SIZE", "1"}})));
  // Where something is missing, too.
  for (const char* const name : {"SULLAE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "TF_CONFIG"})
    EXPECT_TRUE(is_launched(variables({{name, "0"}}))) << name;
}

TEST(DetectWorld, UnderstandsSullaesOwn) {
  const auto options = detect({{"SULLAE_RANK", "2"},
                               {"SULLAE_SIZE", "4"},
                               {"SULLAE_STORE", "unix:x"},
                               {"SULLAE_SERVE_STORE", "0"}});
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.store, "unix:x");
  EXPECT_FALSE(options.serve_store);
  EXPECT_TRUE(
      detect({{"SULLAE_RANK", "0"}, {"SULLAE_SIZE", "2"}, {"SULLAE_STORE", "h:1"}}).serve_store);
}

TEST(DetectWorld, UnderstandsTorchrun) {
  std::map<std::string, std::string> values{{"RANK", "3"},
                                            {"WORLD_SIZE", "8"},
                                            {"LOCAL_RANK", "1"},
                                            {"LOCAL_WORLD_SIZE", "2"},
                                            {"MASTER_ADDR", "node1"},
                                            {"MASTER_PORT", "29500"}};
  const auto options = detect(values);
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.size, 8);
  EXPECT_EQ(options.store, "node1:29500");
  EXPECT_TRUE(options.serve_store);
  // The agent's own store is on the port already.
  values["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(detect(values).store, "node1:29501");
}

TEST(DetectWorld, UnderstandsOpenMpi) {
  std::map<std::string, std::string> values{{"OMPI_COMM_WORLD_RANK", "1"},
                                            {"OMPI_COMM_WORLD_SIZE", "2"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                            {"PMIX_NAMESPACE", "12345"}};
  const auto options = detect(values);
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.size, 2);
  EXPECT_EQ(options.store, local("mpirun-" + std::to_string(::getuid()) + "-12345"));
  values["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_NE(error_of(values).find("set MASTER_ADDR to rank 0's host"), std::string::npos);
  values["MASTER_ADDR"] = "node1";
  values["MASTER_PORT"] = "4000";
  EXPECT_EQ(detect(values).store, "node1:4000");
}

TEST(DetectWorld, UnderstandsPmi) {
  const auto options =
      detect({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "3"}, {"PMI_JOBID", "77"}});
  EXPECT_EQ(options.rank, 1);
  EXPECT_EQ(options.size, 3);
  EXPECT_EQ(options.store, local("PMI-" + std::to_string(::getuid()) + "-77"));
}

TEST(DetectWorld, UnderstandsSlurm) {
  std::map<std::string, std::string> values{{"SLURM_PROCID", "5"},
                                            {"SLURM_STEP_NUM_TASKS", "16"},
                                            {"SLURM_JOB_ID", "1000"},
                                            {"SLURM_STEP_ID", "2"},
                                            {"SLURM_STEP_NUM_NODES", "4"},
                                            {"SLURM_STEP_NODELIST", "gpu[07-10]"},
                                            {"PMI_RANK", "5"},
                                            {"PMI_SIZE", "16"}};
  const auto options = detect(values);
  EXPECT_EQ(options.rank, 5);
  EXPECT_EQ(options.size, 16);
  EXPECT_EQ(options.store, "gpu07:" + std::to_string(12000 + (1000 * 61 + 2) % 20000));
  values["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(detect(values).store, local("slurm-" + std::to_string(::getuid()) + "-1000.2"));
}

// Hydra in a batch script forks there, or has its proxies started by srun: Slurm counts others than
// its ranks.
TEST(DetectWorld, UnderstandsPmiWithinAJobOfSlurms) {
  std::map<std::string, std::string> values{{"SLURM_PROCID", "0"},
                                            {"SLURM_JOB_ID", "1000"},
                                            {"PMI_RANK", "3"},
                                            {"PMI_SIZE", "4"},
                                            {"MPI_LOCALNRANKS", "4"}};
  EXPECT_EQ(detect(values).rank, 3);
  EXPECT_EQ(detect(values).size, 4);
  values["SLURM_STEP_NUM_TASKS"] = "1";
  values["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(detect(values).rank, 3);
  EXPECT_EQ(detect(values).size, 4);
}

// As salloc gives one, with use_interactive_step.
TEST(DetectWorld, TakesASlurmShellForOneProcess) {
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "1"},
                    {"SLURM_JOB_ID", "1000"},
                    {"SLURM_STEP_ID", "4294967290"}})
                .size,
            1);
}

TEST(DetectWorld, TakesASlurmBatchScriptForOneProcess) {
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "1000"}}).size,
            1);
}

TEST(DetectWorld, UnderstandsTfConfig) {
  const std::string cluster =
      R"("cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]})";
  const auto chief =
      detect({{"TF_CONFIG", "{" + cluster + R"(, "task": {"type": "chief", "index": 0}})"}});
  EXPECT_EQ(chief.rank, 0);
  EXPECT_EQ(chief.size, 3);
  EXPECT_EQ(chief.store, "a:2222");
  const auto worker =
      detect({{"TF_CONFIG", "{" + cluster + R"(, "task": {"type": "worker", "index": 1}})"}});
  EXPECT_EQ(worker.rank, 2);
  EXPECT_NE(
      error_of({{"TF_CONFIG", "{" + cluster + R"(, "task": {"type": "evaluator", "index": 0}})"}})
          .find("task evaluator is no rank: expected sullae train"),
      std::string::npos);
  EXPECT_NE(error_of({{"TF_CONFIG", "{" + cluster + R"(, "task": {"type": "ps", "index": 0}})"}})
                .find("task ps 0 is no rank, but a parameter server"),
            std::string::npos);
  EXPECT_NE(error_of({{"TF_CONFIG", "{"}})
                .find("TF_CONFIG is not what TensorFlow documents: parse error at line 1"),
            std::string::npos);
}

TEST(DetectWorld, LooksInTheDocumentedOrder) {
  std::map<std::string, std::string> values{
      {"SULLAE_RANK", "0"},          {"SULLAE_SIZE", "2"},
      {"SULLAE_STORE", "unix:mine"}, {"RANK", "1"},
      {"WORLD_SIZE", "3"},           {"MASTER_ADDR", "h"},
      {"MASTER_PORT", "1"},          {"SLURM_PROCID", "0"},
      {"SLURM_STEP_NUM_TASKS", "9"}, {"OMPI_COMM_WORLD_RANK", "0"},
      {"OMPI_COMM_WORLD_SIZE", "5"}};
  EXPECT_EQ(detect(values).size, 2);
  values.erase("SULLAE_RANK");
  values.erase("SULLAE_SIZE");
  EXPECT_EQ(detect(values).size, 3);
}

TEST(DetectWorld, NamesWhatIsMissingOrWrong) {
  EXPECT_EQ(error_of({{"SULLAE_RANK", "0"}}),
            "SULLAE_SIZE is not set, although SULLAE_RANK is: expected both");
  EXPECT_NE(error_of({{"SULLAE_RANK", "x"}, {"SULLAE_SIZE", "2"}})
                .find("SULLAE_RANK: 'x' is not an integer"),
            std::string::npos);
  EXPECT_NE(error_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).find("expected a rank below the size"),
            std::string::npos);
  EXPECT_EQ(error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
            "MASTER_ADDR is not set, although RANK is: expected both");
  EXPECT_NE(
      error_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "99999"}})
          .find("MASTER_PORT"),
      std::string::npos);
}

TEST(SlurmHosts, FirstOfAList) {
  EXPECT_EQ(first_slurm_host("node7"), "node7");
  EXPECT_EQ(first_slurm_host("node7,node8"), "node7");
  EXPECT_EQ(first_slurm_host("node[003-007,9],gpu1"), "node003");
  EXPECT_EQ(first_slurm_host("a[5,7]"), "a5");
  EXPECT_EQ(first_slurm_host("login,node[1-2]"), "login");
  EXPECT_EQ(first_slurm_host("rack[0-3]_blade[07-41],x"), "rack0_blade07");
  EXPECT_EQ(first_slurm_host("node[01-04]-ib,login"), "node01-ib");
  EXPECT_THROW(first_slurm_host("node["), InputError);
}

}  // namespace
}  // namespace sullae::testing
