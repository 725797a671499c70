// What a TensorFlow cluster says of its tasks.
#include "transport/tf_config.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

std::string config_of(const std::string& task) {
  return R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4", "e:5"]}, "task": )" +
         task + "}";
}

TfConfig read(const std::string& task) {
  return *tf_config(environment_of({{"TF_CONFIG", config_of(task)}}));
}

TEST(TfConfig, NamesTheTask) {
  EXPECT_FALSE(tf_config(environment_of({})));
  // A rank of `sullae run` within such a task.
  EXPECT_FALSE(tf_config(environment_of(
      {{"TF_CONFIG", config_of(R"({"type": "ps", "index": 0})")}, {"SULLAE_RANK", "0"}})));
  const auto chief = read(R"({"type": "chief", "index": 0})");
  EXPECT_EQ(chief.task, TfConfig::Task::rank);
  EXPECT_EQ(chief.index, 0);
  EXPECT_EQ(chief.ranks, (std::vector<std::string>{"a:1", "b:2", "c:3"}));
  EXPECT_EQ(chief.servers, (std::vector<std::string>{"d:4", "e:5"}));
  EXPECT_EQ(read(R"({"type": "worker", "index": 1})").index, 2);
  const auto server = read(R"({"type": "ps", "index": 1})");
  EXPECT_EQ(server.task, TfConfig::Task::parameter_server);
  EXPECT_EQ(server.index, 1);
  EXPECT_EQ(read(R"({"type": "evaluator", "index": 0})").task, TfConfig::Task::evaluator);
}

TEST(TfConfig, SaysWhatIsWrong) {
  const auto error = [](const std::string& text) {
    return error_of([&] { tf_config(environment_of({{"TF_CONFIG", text}})); });
  };
  for (const char* task : {R"({"type": "ps", "index": 2})", R"({"type": "worker", "index": 2})",
                           R"({"type": "boss", "index": 0})"})
    EXPECT_TRUE(contains(error(config_of(task)),
                         "is not in the cluster: expected a chief, worker or ps that it lists, or "
                         "an evaluator"))
        << task;
  EXPECT_EQ(error(R"({"cluster": {"ps": ["d"]}, "task": {"type": "ps", "index": 0}})"),
            "TF_CONFIG: address 'd': expected host:port");
  EXPECT_TRUE(contains(error("{"), "TF_CONFIG is not what TensorFlow documents: parse error"));
  EXPECT_TRUE(contains(error(R"({"cluster": {}})"), "TF_CONFIG is not what TensorFlow documents"));
}

}  // namespace
}  // namespace sullae::testing
