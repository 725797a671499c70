// Jobs of a real cluster: what the engine says of them is what is shown of their runs.
#include <optional>

#include "cluster/slurm/slurm_fixture.h"
#include "dashboard/dashboard.h"
#include "support/http_client.h"
#include "support/variable.h"
#include "support/wait_until.h"

namespace sullae::cluster {
namespace {

using testing::HttpClient;
using testing::Variable;
using testing::wait_until;

class DashboardSlurm : public SlurmTest {
 protected:
  Json get(const std::string& path) {
    if (!dashboard_) dashboard_.emplace(dashboard::Options{.folder = work_.path(), .port = 0});
    const auto answer = HttpClient(dashboard_->port()).get(path);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }

  const std::string slurm_conf_ = cluster() + "/slurm.conf";
  const std::string folder_ = cluster();
  const Variable cluster_{"SULLAE_CLUSTER", folder_.c_str()};
  const Variable conf_{"SLURM_CONF", slurm_conf_.c_str()};
  std::optional<dashboard::Dashboard> dashboard_;
};

TEST_F(DashboardSlurm, ARunOfAJobIsWhatItsEngineSays) {
  const auto job = submit({"--name", "drawn", sullae_program(), "train", "mnist", "--data", "",
                           "--epochs", "1000", "--log-interval", "5"});
  wait_for_state(job, "running");
  const auto run = "jobs:" + job + "/run";
  wait_until([&] { return !get("/api/runs").at("runs").empty(); });
  EXPECT_EQ(get("/api/runs").at("runs")[0].at("id"), run);
  wait_until([&] { return get("/api/run?id=" + run).at("step") > 0; });
  EXPECT_EQ(get("/api/run?id=" + run).at("state"), "running");
  EXPECT_EQ(get("/api/run?id=" + run).at("job"), job);

  auto jobs = get("/api/jobs");
  EXPECT_EQ(jobs.at("problems"), Json::array());
  EXPECT_GE(jobs.at("nodes").size(), 3U);
  ASSERT_EQ(jobs.at("jobs").size(), 1U);
  EXPECT_EQ(jobs.at("jobs")[0].at("state"), "running");
  const auto shown = get("/api/job?id=" + job);
  EXPECT_EQ(shown.at("runs"), Json{run});
  EXPECT_EQ(shown.at("history").size(), 1U);
  EXPECT_TRUE(contains(get("/api/job-log?id=" + job).at("text"), "mnist: "));

  EXPECT_EQ(sullae({"jobs", "cancel", job}).exit_code, 0);
  wait_until([&] { return get("/api/run?id=" + run).at("state") == "cancelled"; });
  EXPECT_EQ(get("/api/job?id=" + job).at("state"), "cancelled");
  const auto none = HttpClient(dashboard_->port()).get("/api/job?id=none-1");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(HttpClient(dashboard_->port()).get("/api/job-log?id=" + job + "&attempt=7").status,
            404);
}

}  // namespace
}  // namespace sullae::cluster
