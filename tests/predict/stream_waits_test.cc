// What `sullae predict --source --sink` says while it waits for brokers, and that signals end its
// waits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "predict/review_model.h"
#include "support/errors.h"
#include "support/free_ports.h"
#include "support/kafka_cluster.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

class PredictStreamWaits : public ::testing::Test {
 protected:
  PredictStreamWaits() { put_review_model(model_); }

  // With what goes to standard error on standard output, which tests can wait for.
  std::vector<std::string> words(const std::string& source, const std::string& sink) const {
    return {
        "sh",       "-c",   "exec \"$@\" 2>&1", "sh", sullae_program(), "predict", model_.string(),
        "--source", source, "--sink",           sink};
  }

  TemporaryDirectory directory_;
  std::filesystem::path model_ = directory_.path() / "models" / "texts";
};

TEST_F(PredictStreamWaits, NameBrokersThatDoNotAnswerAndEndAtASignal) {
  const auto nobody = fmt::format("kafka://127.0.0.1:{}/", free_ports(1).front());
  Program program(words(nobody + "reviews", nobody + "opinions"),
                  {{"SULLAE_KAFKA_TIMEOUT", "100"}});
  EXPECT_TRUE(program.wait_for_output("opinions: no broker has answered for 1"));
  program.signal(SIGTERM);
  const auto result = program.wait(std::chrono::seconds{30});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(
      contains(result.standard_output, "opinions: asked to end while brokers were waited for: "))
      << result.standard_output;
}

TEST_F(PredictStreamWaits, NameASourceThatIsAtItsEndAndThenAway) {
  const KafkaCluster cluster;
  cluster.make_topic("reviews", 1);
  cluster.make_topic("opinions", 1);
  cluster.put("reviews", 0, "", R"({"text":"a"})");
  cluster.flush();
  Program program(words(cluster.address("reviews"), cluster.address("opinions")),
                  {{"SULLAE_KAFKA_CONFIG", cluster.config()}});
  EXPECT_TRUE(program.wait_for_output("reviews: nothing has come for 1"));
  EXPECT_TRUE(program.wait_for_output("s: all 1 partitions were read to their ends"));
  cluster.set_down();
  EXPECT_TRUE(program.wait_for_output("s: no broker answers: ")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().exit_code, 0);
}

// Libraries of a wheel have an OpenSSL of their own, which nobody else may meet.
TEST_F(PredictStreamWaits, OverTlsEndWithAnError) {
  const auto config = directory_.path() / "client.properties";
  std::ofstream(config) << "security.protocol=ssl\n";
  const auto nobody = fmt::format("kafka://127.0.0.1:{}/reviews", free_ports(1).front());
  for (const auto& command :
       {std::vector<std::string>{sullae_program(), "data", "inspect", nobody},
        std::vector<std::string>{sullae_program(), "predict", model_, "--source", nobody, "--sink",
                                 nobody + "2"},
        std::vector<std::string>{sullae_program(), "train", "text", "--source", nobody}}) {
    const auto result = run_program(
        command, {{"SULLAE_KAFKA_CONFIG", config.string()}, {"SULLAE_KAFKA_TIMEOUT", "2"}});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(contains(result.standard_error, "no broker has answered within 2 s"))
        << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing
