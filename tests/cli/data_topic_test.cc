// `sullae data` of messages of Kafka.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sullae/data.h"
#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace data;

std::vector<Example> all_of(const std::filesystem::path& files) {
  const auto set = open_dataset({files});
  std::vector<Example> examples;
  for (std::size_t i = 0; i < set->size(); ++i) examples.push_back(set->read(i));
  return examples;
}

TEST(DataOfTopics, AreReadAsFilesAre) {
  const KafkaCluster cluster;
  cluster.make_topic("reviews", 2);
  for (int i = 0; i < 5; ++i)
    cluster.put("reviews", i % 2, "", fmt::format(R"({{"text":"t{}","label":{}}})", i, i % 2));
  cluster.flush();
  const auto shown = run_program({sullae_program(), "data", "inspect", cluster.address("reviews")});
  EXPECT_EQ(shown.exit_code, 0) << shown.standard_error;
  const std::string address = cluster.address("reviews") + "?0=0-3&1=0-2";
  EXPECT_TRUE(shown.standard_output.starts_with("messages  " + address + "\nsamples   5\n"))
      << shown.standard_output;
  const TemporaryDirectory directory;
  const auto output = directory.path() / "records";
  for (const int ranks : {1, 2}) {
    const auto converted = run_program(
        {sullae_program(), "run", "-np", std::to_string(ranks), sullae_program(), "data", "convert",
         cluster.address("reviews"), "--output", output, "--overwrite"});
    EXPECT_EQ(converted.exit_code, 0) << converted.standard_error;
    EXPECT_EQ(all_of(output), all_of(address));
    EXPECT_EQ(all_of(output).size(), 5U);
  }
  EXPECT_EQ(error_of<InputError>([&] { all_of(cluster.address("reviews")); }),
            cluster.address("reviews") +
                ": which messages is not said: expected --source, or the offsets as `sullae data "
                "inspect " +
                cluster.address("reviews") + "` prints them");
  EXPECT_EQ(error_of<InputError>([&] {
              open_dataset({output, address});
            }),
            cluster.address("reviews") + ": expected one topic, and no other data beside it");
}

}  // namespace
}  // namespace sullae::testing
