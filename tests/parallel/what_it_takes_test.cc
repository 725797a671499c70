// What models in parts take of memory and of a network.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/two_networks.h"

namespace sullae::testing {
namespace {

using nlohmann::json;

json printed(const ProgramResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  return json::parse(result.standard_output);
}

bool is_out_of_memory(const ProgramResult& result) {
  return contains(result.standard_error, "allocate") ||
         contains(result.standard_error, "bad_alloc");
}

// 34 million parameters, whose weights, gradients and moments are 540 MB.
TEST(Memory, WhatOneRankCannotHoldTrainsOnFour) {
  const auto train = [](int ranks, const std::string& way, std::vector<std::string> limit) {
    std::vector<std::string> words = {sullae_program(),
                                      "run",
                                      "--no-tag",
                                      "-np",
                                      std::to_string(ranks),
                                      SHARDED_PROGRAM,
                                      way,
                                      "33",
                                      "1000",
                                      "4",
                                      "3"};
    words.insert(words.end(), limit.begin(), limit.end());
    return run_program(words, {{"OMP_NUM_THREADS", "1"}});
  };
  const std::string megabytes = "350";
  const auto alone = train(1, "replicated", {megabytes});
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_TRUE(is_out_of_memory(alone)) << alone.standard_error;
  const auto four = train(4, "replicated", {megabytes});
  EXPECT_NE(four.exit_code, 0);
  EXPECT_TRUE(is_out_of_memory(four)) << four.standard_error;
  const auto whole = printed(train(1, "replicated", {}));
  // And is saved within the limit, by ranks that each have a quarter of its 12 bytes a parameter.
  const TemporaryDirectory folder;
  const auto parts =
      printed(train(4, "parameters", {megabytes, (folder.path() / "checkpoint").string()}));
  EXPECT_NEAR(parts["loss"].get<double>(), whole["loss"].get<double>(), 1e-5);
  EXPECT_LT(parts["save_bytes_a_parameter"].get<double>(), 3);
  EXPECT_LT(parts["load_bytes_a_parameter"].get<double>(), 3);
}

// Adam in float32, of four ranks, by parameter: 16 bytes for each that has all. Beside the formula
// there are two of the largest units, and what a process takes whatever it trains.
TEST(Memory, OfPartsIsThatOfTheFormula) {
  constexpr double kParameters = 40.04e6;
  constexpr double kTwoUnits = 2 * 1.001e6 * 4;
  constexpr double kProcess = 20e6;
  for (const auto& [way, formula] :
       {std::pair{"optimizer", 10.0}, std::pair{"gradients", 7.0}, std::pair{"parameters", 4.0}}) {
    const auto taken = printed(run_program({sullae_program(), "run", "--no-tag", "-np", "4",
                                            SHARDED_PROGRAM, way, "40", "1000", "1", "2"},
                                           {{"OMP_NUM_THREADS", "1"}}));
    EXPECT_LT(taken["bytes_a_parameter"].get<double>(),
              1.1 * formula + (kTwoUnits + kProcess) / kParameters)
        << way;
  }
}

class OverANetwork : public TwoNetworks {};

TEST_F(OverANetwork, PartsTakeNoMoreThanTheirTheory) {
  std::map<std::string, double> bytes;
  for (const char* way : {"replicated", "optimizer", "gradients", "parameters"}) {
    const auto result = run_program(words({"--no-tag", "-H", a_ + ":1," + b_ + ":1"},
                                          {SHARDED_PROGRAM, way, "12", "500", "4", "10"}),
                                    over_tcp());
    bytes[way] = printed(result)["network_bytes"].get<double>();
    RecordProperty(way, fmt::format("{:.4f}", bytes[way] / bytes["replicated"]));
  }
  // Each of two ranks sends its half of 12 MB twice, and gets as much.
  EXPECT_GT(bytes["replicated"], 24e6);
  EXPECT_LT(bytes["optimizer"], 1.02 * bytes["replicated"]);
  EXPECT_LT(bytes["gradients"], 1.02 * bytes["replicated"]);
  EXPECT_LT(bytes["parameters"], 1.52 * bytes["replicated"]);
}

}  // namespace
}  // namespace sullae::testing
