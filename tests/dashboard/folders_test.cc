#include "dashboard/folders.h"

#include "dashboard/fixture.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using Names = std::vector<std::string>;

class Folders : public DashboardTest {};

TEST_F(Folders, RunsModelsAndPipelinesAreFound) {
  run("b/2", 1);
  run("b/1", 1);
  run("a run", 1);
  run("b/1/within", 1);
  put("models/m/1/model.ckpt", "");
  put("models/m/3/model.pt", "");
  put("models/empty/1/readme", "");
  put("nightly.toml", "[steps.a]\nrun = \"true\"\n");
  put("pyproject.toml", "[project]\n");
  put(".sullae/pipelines/nightly/lock", "");
  put(".hidden/run.json", "");
  put(".hidden/metrics.jsonl", "");
  put("half/run.json", "{}");
  std::filesystem::create_directory_symlink(root_, root_ / "b" / "loop");
  const auto found = dashboard::look_below(root_);
  EXPECT_EQ(found.runs, (Names{"a run", "b/1", "b/1/within", "b/2"}));
  EXPECT_EQ(found.models, Names{"models/m"});
  EXPECT_EQ(found.pipelines, Names{"nightly.toml"});
  EXPECT_TRUE(found.problems.empty());
}

TEST_F(Folders, ARunIsItsOwnFolder) {
  run(".", 1);
  EXPECT_EQ(dashboard::look_below(root_).runs, Names{"."});
}

TEST_F(Folders, LinksTakeNoNamesAway) {
  run("run-1", 1);
  run("run-2", 1);
  std::filesystem::create_directory_symlink("run-2", root_ / "latest");
  const TemporaryDirectory elsewhere;
  { RunLog(elsewhere.path() / "other", {}).completed(); }
  std::filesystem::create_directory_symlink(elsewhere.path(), root_ / "a-link");
  EXPECT_EQ(dashboard::look_below(root_).runs, (Names{"a-link/other", "run-1", "run-2"}));
}

TEST_F(Folders, WhereItStopsIsSaid) {
  for (int i = 0; i < 20; ++i) std::filesystem::create_directories(root_ / std::to_string(i));
  const auto found = dashboard::look_below(root_, 5);
  ASSERT_EQ(found.problems.size(), 1U);
  EXPECT_TRUE(contains(found.problems[0], "there is more than is looked at"));
  const auto none = dashboard::look_below(root_ / "none");
  EXPECT_TRUE(none.runs.empty());
  EXPECT_TRUE(contains(none.problems.at(0), "none: is not there"));
}

}  // namespace
}  // namespace sullae::testing
