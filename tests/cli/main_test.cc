// What a mistyped command line is told.
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

TEST(CommandLine, SaysWhichOptionWasProbablyMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"serve", "models", "--http-prot", "1"},
       "--http-prot is not an option of sullae serve (did you mean --http-port?)"},
      {{"train", "mnist", "--epoch", "1"},
       "--epoch is not an option of sullae train mnist (did you mean --epochs?)"},
      {{"train", "mnist", "--bach-sise", "1"},
       "--bach-sise is not an option of sullae train mnist (did you mean --batch-size?)"},
      {{"serve", "models", "--colour", "red"},
       "--colour is not an option of sullae serve; see sullae serve --help"},
      {{"serve", "models", "more"}, "more is not an option of sullae serve; see"},
      {{"server"}, "'server' is not a command; see sullae --help"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all{sullae_program()};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing
