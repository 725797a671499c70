// Which of a model's versions is taken.
#include "train/find_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "repository/publish.h"
#include "repository/serving_state.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

TEST(FindModel, TakesTheNewestThatIsNotRolledBack) {
  const TemporaryDirectory directory;
  const auto model = directory.path() / "m";
  const auto file_of = [&](int version) {
    return model / std::to_string(version) / repository::kModelFile;
  };
  for (const int version : {1, 2, 3}) {
    std::filesystem::create_directories(file_of(version).parent_path());
    std::ofstream(file_of(version)) << "x";
  }
  EXPECT_EQ(train::find_model(model).file, file_of(3));
  repository::write_serving_state(model, {.serving = 1, .withdrawn = {2, 3}});
  EXPECT_EQ(train::find_model(model).file, file_of(1));
  // Who names one means it.
  EXPECT_EQ(train::find_model(model / "3").file, file_of(3));
  repository::write_serving_state(model, {.serving = 0, .withdrawn = {1, 2, 3}});
  EXPECT_TRUE(contains(error_of([&] { train::find_model(model); }),
                       "all its versions are rolled back: expected one of them, as"));
}

}  // namespace
}  // namespace sullae::testing
