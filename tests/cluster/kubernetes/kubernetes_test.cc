// What kubectl is given, held against files beside this one. After a change that is meant,
// SULLAE_WRITE_GOLDEN=1 writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "cluster/engine.h"
#include "support/content_of.h"
#include "support/errors.h"

namespace sullae::cluster {
namespace {

using testing::contains;
using testing::error_of;

std::string yaml_of(const Job& job) {
  const auto engine = make_engine("kubernetes", Settings{});
  return engine->describe(
      {.mark = {.jobs = "0", .id = job.name + "-1"}, .job = job, .folder = "/jobs"});
}

void expect_golden(const std::string& name, const std::string& text) {
  const auto file = std::string(GOLDEN_DIRECTORY) + "/" + name;
  if (std::getenv("SULLAE_WRITE_GOLDEN") != nullptr) std::ofstream(file) << text;
  const std::string golden = testing::content_of(file);
  EXPECT_EQ(text, golden) << file;
}

TEST(Kubernetes, OfAFixedJob) {
  expect_golden("fixed.yaml", yaml_of({.command = {"./train", "--name", "it's \"quoted\""},
                                       .name = "train",
                                       .directory = "/work",
                                       .min_nodes = 2,
                                       .max_nodes = 2}));
}

TEST(Kubernetes, OfAnElasticJobWithAllThatThereIs) {
  expect_golden("elastic.yaml",
                yaml_of({.command = {"sullae", "train", "mnist", "--data", "{data}/mnist"},
                         .name = "My_Job.1",
                         .directory = "/work",
                         .environment = {{"A", "b c"}},
                         .min_nodes = 2,
                         .max_nodes = 8,
                         .ranks_per_node = 4,
                         .cpus_per_rank = 2,
                         .priority = "high",
                         .time = std::chrono::hours{2},
                         .deadline = "2026-11-25T06:00:00+0900",
                         .mounts = {{"data", "/mnt/data"}},
                         .attempts = 3,
                         .engine_options = {"image=registry.example/sullae:7"}}));
}

// Where pods keep a job: what has other settings is another job, and does not go on with them.
TEST(Kubernetes, AnotherJobOfTheSameNameHasAFolderOfItsOwn) {
  const auto folder_of = [](const std::vector<std::string>& command) {
    const auto yaml = yaml_of({.command = command, .name = "train", .directory = "/work"});
    const auto begin = yaml.find("mkdir -p ") + 9;
    return yaml.substr(begin, yaml.find(' ', begin) - begin);
  };
  EXPECT_TRUE(folder_of({"./a"}).starts_with("/sullae/jobs/train-")) << folder_of({"./a"});
  EXPECT_EQ(folder_of({"./a"}), folder_of({"./a"}));
  EXPECT_NE(folder_of({"./a"}), folder_of({"./a", "--epochs", "3"}));
}

TEST(Kubernetes, SaysWhatIsKubectls) {
  const auto engine = make_engine("kubernetes", Settings{});
  const Submission submission{.job = {.command = {"true"}, .name = "a", .directory = "/"},
                              .folder = "/jobs"};
  EXPECT_TRUE(contains(error_of([&] { engine->submit(submission); }),
                       "--dry-run prints what kubectl apply -f - takes"));
  EXPECT_TRUE(contains(error_of([&] { engine->nodes(); }), "kubectl get nodes"));
  Job job = submission.job;
  job.begin = "2026-11-25T02:00:00";
  EXPECT_TRUE(contains(error_of([&] { yaml_of(job); }),
                       "--begin: Kubernetes starts what is applied; a CronJob applies it later"));
  job.begin.clear();
  job.engine_options = {"--gres=gpu:1"};
  EXPECT_TRUE(contains(error_of([&] { yaml_of(job); }),
                       "--engine-option --gres=gpu:1: expected image=NAME"));
  job.engine_options = {"image="};
  EXPECT_EQ(error_of([&] { yaml_of(job); }),
            "--engine-option image=: expected the name of an image");
  job.engine_options.clear();
  job.mounts = {{"a_b", "/a"}, {"a-b", "/b"}};
  EXPECT_TRUE(
      contains(error_of([&] { yaml_of(job); }), "--mount a_b=…: Kubernetes has volumes by"));
  job.mounts = {{"sullae-jobs", "/a"}};
  EXPECT_TRUE(contains(error_of([&] { yaml_of(job); }), "none of Sullae's"));
  job.mounts.clear();
  for (const auto& name : {std::string(41, 'a'), std::string("7days"), std::string("a-")}) {
    job.name = name;
    EXPECT_TRUE(contains(error_of([&] { yaml_of(job); }),
                         "--name " + name + ": Kubernetes has names of at most 40 letters"));
  }
  EXPECT_TRUE(contains(error_of([] { make_engine("lsf", Settings{}); }),
                       "--engine lsf: expected slurm or kubernetes"));
}

}  // namespace
}  // namespace sullae::cluster
