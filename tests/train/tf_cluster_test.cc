// The tasks of a TensorFlow cluster, which all have the same command line.
#include <map>

#include "support/errors.h"
#include "support/free_ports.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

class TfCluster : public Train {
 protected:
  std::map<std::string, std::string> task(const std::string& type, int index) const {
    const auto address = [&](int port) {
      return "\"127.0.0.1:" + ports_[static_cast<std::size_t>(port)] + "\"";
    };
    return {{"TF_CONFIG", R"({"cluster": {"chief": [)" + address(0) + R"(], "worker": [)" +
                              address(1) + R"(], "ps": [)" + address(2) + ", " + address(3) +
                              R"(]}, "task": {"type": ")" + type + R"(", "index": )" +
                              std::to_string(index) + "}}"},
            {"OMP_NUM_THREADS", "1"}};
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{
        sullae_program(),     "train", "mnist",    "--data", mnist_.string(),
        "--batch-size",       "60",    "--epochs", "2",      "--checkpoint-dir",
        checkpoints_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<std::string> ports_ = free_ports(4);
  const HiddenGpus hidden_;
};

TEST_F(TfCluster, TrainsOnServersAndIsEvaluated) {
  const std::vector<std::string> report{"--report", report_.string()};
  Program evaluator(command(report), task("evaluator", 0));
  Program first_server(command(), task("ps", 0));
  Program second_server(command(), task("ps", 1));
  Program worker(command(), task("worker", 0));
  const auto chief = run_program(command(report), task("chief", 0));
  ASSERT_EQ(chief.exit_code, 0) << chief.standard_error;
  EXPECT_TRUE(contains(chief.standard_output, "staleness: rank 0 was 0.0"))
      << chief.standard_output;
  EXPECT_EQ(worker.wait().exit_code, 0);
  EXPECT_EQ(first_server.wait().exit_code, 0) << "it ends with its workers";
  EXPECT_EQ(second_server.wait().exit_code, 0);
  const auto evaluated = evaluator.wait();
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.standard_error;
  EXPECT_TRUE(contains(evaluated.standard_output, "mnist-step-")) << evaluated.standard_output;

  const auto trained = read_json(report_);
  EXPECT_EQ(trained["world_size"], 2);
  const auto seen = read_json(directory_.path() / "report-evaluator.json");
  EXPECT_EQ(seen["steps"], trained["steps"]);
  EXPECT_NEAR(seen["test_loss"].get<double>(), trained["test_loss"].get<double>(), 1e-5);
  EXPECT_EQ(seen["test_accuracy"], trained["test_accuracy"]);
}

// Outside of TensorFlow's clusters.
TEST_F(TfCluster, AnEvaluatorTestsCheckpointsAsTheyCome) {
  // With the trainer's own options, whose report it does not write over.
  const std::vector<std::string> options = {"--precision", "bfloat16", "--loss-scale",
                                            "64",          "--report", report_.string()};
  auto tests = options;
  tests.emplace_back("--evaluator");
  Program evaluator(command(tests));
  EXPECT_EQ(run_program(command(options)).exit_code, 0);
  EXPECT_EQ(evaluator.wait().exit_code, 0);
  const auto seen = read_json(directory_.path() / "report-evaluator.json");
  EXPECT_GT(seen["test_accuracy"].get<double>(), 0.8);
  EXPECT_EQ(seen["epochs"], 2);
  EXPECT_EQ(read_json(report_)["epochs"], 2);
}

TEST_F(TfCluster, AnEvaluatorSaysWhatItLacks) {
  const auto late = run_program(command({"--evaluator"}), {{"SULLAE_EVALUATOR_TIMEOUT", "0.2"}});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_TRUE(contains(late.standard_error, "sullae train: no new checkpoint of mnist came into " +
                                                checkpoints_.string() +
                                                " within 0.2 s (SULLAE_EVALUATOR_TIMEOUT)"))
      << late.standard_error;
  // Those who train may have GPUs.
  const auto on_a_cpu = run_program(command({"--evaluator", "--precision", "float16"}),
                                    {{"SULLAE_EVALUATOR_TIMEOUT", "0.2"}});
  EXPECT_TRUE(contains(on_a_cpu.standard_error, "no new checkpoint of mnist came into "))
      << on_a_cpu.standard_error;
  const auto nowhere =
      run_program({sullae_program(), "train", "mnist", "--data", mnist_.string(), "--evaluator"});
  EXPECT_TRUE(contains(nowhere.standard_error,
                       "--evaluator: needs --checkpoint-dir, where the checkpoints are"))
      << nowhere.standard_error;
  const auto several = train(2, {"--evaluator", "--checkpoint-dir", checkpoints_.string()});
  EXPECT_TRUE(contains(several.standard_error, "--evaluator: 2 ranks: expected one process"))
      << several.standard_error;
}

}  // namespace
}  // namespace sullae::testing
