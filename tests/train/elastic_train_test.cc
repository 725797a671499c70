// `sullae train` while its ranks are killed, asked to go, and come: what it comes to is what an
// undisturbed run comes to.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "runs/history.h"
#include "runs/record.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "train/fixture.h"
#include "train/small_images.h"

namespace sullae::testing {
namespace {

class ElasticTrain : public Train {
 protected:
  std::vector<std::string> elastic_words(std::vector<std::string> options) {
    auto all = words(3, std::move(options), recipe_);
    const auto after = std::ranges::find(all, "--cpus-per-rank");
    all.insert(after, {"--min-np", min_ranks_, "--cooldown", cooldown_});
    if (!timeline_.empty()) all.insert(all.begin() + 2, {"--timeline", timeline_});
    return all;
  }
  // The job's ranks, and not its launcher.
  std::vector<pid_t> ranks() const {
    std::vector<pid_t> found;
    for (const pid_t pid : processes_with(mnist_.string())) {
      const std::string line = content_of("/proc/" + std::to_string(pid) + "/cmdline");
      if (line.find(std::string("sullae\0train", 12)) != std::string::npos &&
          line.find(std::string("\0run\0", 5)) == std::string::npos)
        found.push_back(pid);
    }
    return found;
  }
  nlohmann::json undisturbed(std::vector<std::string> options) {
    options.insert(options.end(), {"--report", report_.string()});
    EXPECT_EQ(run_program(words(1, options, recipe_)).exit_code, 0);
    return read_json(report_);
  }
  // Signals a rank that is drawn, as often as that many changes are seen.
  nlohmann::json disturbed(std::vector<std::string> options, int signal, int times, unsigned seed) {
    std::filesystem::remove(report_);
    options.insert(options.end(), {"--report", report_.string(), "--log-interval", "1"});
    Program program(elastic_words(options));
    std::mt19937 random(seed);
    EXPECT_TRUE(program.wait_for_output("step 5/"));
    for (int i = 0; i < times; ++i) {
      const auto alive = ranks();
      if (alive.empty()) break;
      ::kill(alive[random() % alive.size()], signal);
      if (!program.wait_for_more_output(" on after ")) break;
      // The last one's end would be the job's.
      if (last_ranks(program.output()) == 1 && !program.wait_for_more_output(" on after ")) break;
    }
    const auto result = program.wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_output << result.standard_error;
    EXPECT_TRUE(vanish(mnist_.string()));
    said_ = result.standard_output + result.standard_error;
    return read_json(report_);
  }
  // Of the newest world that has been told of.
  static int last_ranks(const std::string& text) {
    std::smatch found;
    const auto line = text.substr(text.rfind('\n', text.rfind(" on after ")) + 1);
    EXPECT_TRUE(std::regex_search(line, found, std::regex(R"((\d+) ranks? goe?s? on after)")))
        << line;
    return std::stoi(found[1]);
  }
  void expect_same(const nlohmann::json& report, const nlohmann::json& expected) {
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_EQ(report["epochs"], expected["epochs"]);
    ASSERT_EQ(report["history"].size(), expected["history"].size());
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(),
                5e-3);  // as 1 rank and 3 differ by rounding
    ASSERT_FALSE(report["world_changes"].empty()) << said_;
    // Whoever writes the report in the end: all changes are in it.
    for (const auto& change : report["world_changes"]) {
      EXPECT_GT(change["step"], 0);
      EXPECT_GE(change["ranks"], 1);
      EXPECT_NE(change["reason"], "");
    }
    EXPECT_TRUE(contains(report["world_changes"][0]["reason"].get<std::string>(), "killed"));
  }
  std::string said_;
  std::string timeline_;
  std::string min_ranks_ = "1";
  std::string cooldown_ = "0.2";
  std::string recipe_ = "mnist";
};

TEST_F(ElasticTrain, KillsDoNotShowInWhatIsTrained) {
  const std::vector<std::string> options = {"--epochs", "12"};
  const auto expected = undisturbed(options);
  for (const unsigned seed : {1U, 2U}) {
    const auto folder = directory_.path() / ("run-" + std::to_string(seed));
    auto kept = options;
    const auto metrics = directory_.path() / "metrics";
    kept.insert(kept.end(), {"--run-dir", folder.string(), "--metrics-file", metrics.string()});
    const auto report = disturbed(kept, SIGKILL, 3, seed);
    expect_same(report, expected);
    EXPECT_TRUE(contains(content_of(metrics),
                         fmt::format("sullae_training_world_changes_total{{recipe=\"mnist\"}} {}\n",
                                     report["world_changes"].size())))
        << content_of(metrics);
    // Whoever was the first rank when: one run, whose steps come once.
    runs::History history(folder / runs::kMetricsFile);
    history.update();
    std::vector<std::int64_t> steps;
    for (const auto row : history.find("train/loss")->rows) steps.push_back(history.steps()[row]);
    EXPECT_TRUE(std::ranges::is_sorted(steps, std::less_equal{}));
    EXPECT_EQ(steps.back(), expected["steps"]);
    EXPECT_GE(history.notes().size(), 1U);
    EXPECT_EQ(history.damaged(), 0U);
    EXPECT_EQ(read_json(folder / runs::kRecordFile).at("ended").at("how"), "completed");
  }
}

TEST_F(ElasticTrain, ARunOfAnotherJobIsNotWrittenOver) {
  const auto folder = directory_.path() / "run";
  const std::vector<std::string> options = {"--epochs", "1",         "--max-steps",
                                            "5",        "--run-dir", folder.string()};
  ASSERT_EQ(run_program(elastic_words(options)).exit_code, 0);
  const auto again = run_program(elastic_words(options));
  EXPECT_NE(again.exit_code, 0);
  EXPECT_TRUE(contains(again.standard_error, "there is a run in it already"))
      << again.standard_error;
  runs::History history(folder / runs::kMetricsFile);
  history.update();
  EXPECT_EQ(history.steps().back(), 5);
}

TEST_F(ElasticTrain, NorDoTheyWithMomentsAccumulationAndSixteenBits) {
  const std::vector<std::string> options = {
      "--epochs",    "6",        "--optimizer",          "adam", "--lr",          "0.002",
      "--precision", "bfloat16", "--accumulation-steps", "2",    "--lr-schedule", "cosine",
      "--clip-norm", "1"};
  const auto report = disturbed(options, SIGTERM, 2, 3);
  EXPECT_EQ(report["steps"], 6 * 34);
  EXPECT_GT(report["test_accuracy"].get<double>(), 0.9);
  EXPECT_TRUE(contains(said_, " leaves)")) << said_;
}

// In a batch's mean and variance all ranks have a part.
TEST_F(ElasticTrain, NorDoTheyWithNormsOverAllRanks) {
  mnist_ = directory_.path() / "images";
  write_small_images(mnist_, 120, 24);
  recipe_ = "resnet18";
  const std::vector<std::string> options = {"--epochs", "10",   "--batch-size",     "12",
                                            "--lr",     "0.02", "--sync-batch-norm"};
  expect_same(disturbed(options, SIGKILL, 1, 7), undisturbed(options));
}

TEST_F(ElasticTrain, CheckpointsAreTakenUp) {
  const std::vector<std::string> options = {
      "--epochs",           "4",  "--checkpoint-dir", checkpoints_.string(),
      "--checkpoint-steps", "10", "--resume"};
  const auto expected = undisturbed({"--epochs", "4"});
  auto shorter = options;
  shorter.insert(shorter.end(), {"--max-steps", "50"});
  EXPECT_EQ(run_program(elastic_words(shorter)).exit_code, 0);
  const auto report = disturbed(options, SIGKILL, 1, 5);
  EXPECT_TRUE(contains(said_, "resuming after step 16 of epoch 2")) << said_;
  EXPECT_EQ(report["steps"], expected["steps"]);
  EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(),
              5e-3);  // as 1 rank and 3 differ by rounding
}

TEST_F(ElasticTrain, TheBatchFollowsTheRanksWhereItIsAsked) {
  // Long enough to be disturbed twice on any processor.
  const auto folder = directory_.path() / "run";
  const std::vector<std::string> options = {"--epochs", "18",        "--scale-with-ranks",
                                            "--lr",     "0.01",      "--lr-schedule",
                                            "constant", "--run-dir", folder.string()};
  const auto report = disturbed(options, SIGKILL, 2, 4);
  const auto& last = report["world_changes"].back();
  EXPECT_EQ(report["batch_size"], 60 * last["ranks"].get<int>()) << said_;
  EXPECT_EQ(report["epochs"], 18);
  EXPECT_EQ(report["history"].size(), 18U);
  EXPECT_NEAR(report["history"].back()["lr"].get<double>(), 0.01 * last["ranks"].get<int>(), 1e-9);
  EXPECT_GT(report["test_accuracy"].get<double>(), 0.9);
  // Steps are counted on, whatever batches they have, so that a later one never has a lower number.
  std::int64_t before = 0;
  for (const auto& change : report["world_changes"]) {
    EXPECT_GE(change["step"], before) << said_;
    before = change["step"];
  }
  EXPECT_GT(report["steps"], before);
  const auto record = runs::record_from(content_of(folder / "run.json"), folder);
  ASSERT_TRUE(record.ended) << said_;
  EXPECT_EQ(record.ended->end, runs::End::completed) << record.ended->reason;
}

// The ranks themselves, one after the other, or their launcher: Ctrl-C, or a terminal that is
// closed.
TEST_F(ElasticTrain, WhereAllAreAskedToGoTheyLeaveACheckpoint) {
  const std::vector<std::string> options = {
      "--epochs",       "12", "--checkpoint-dir", checkpoints_.string(), "--resume",
      "--log-interval", "1",  "--report",         report_.string()};
  for (const int signal : {0, SIGINT, SIGHUP, SIGTERM}) {
    Program program(elastic_words(options));
    ASSERT_TRUE(program.wait_for_output("  step ")) << signal;
    for (const pid_t rank : signal == 0 ? ranks() : std::vector<pid_t>()) {
      ::kill(rank, SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (signal != 0) program.signal(signal);
    const auto ended = program.wait();
    EXPECT_NE(ended.exit_code, 0) << ended.standard_error;
    // After a step, or after an epoch where the step that they left after was its last.
    EXPECT_EQ(contains(ended.standard_output, "resuming after "), signal != 0)
        << signal << ended.standard_output;
  }
  const auto result = run_program(elastic_words(options));
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "resuming after ")) << result.standard_output;
  const auto report = read_json(report_);
  EXPECT_EQ(report["steps"], 12 * 34);
  EXPECT_NEAR(report["test_loss"].get<double>(),
              undisturbed({"--epochs", "12"})["test_loss"].get<double>(), 5e-3);
}

TEST_F(ElasticTrain, WhoWaitsForOthersInVainLeavesACheckpoint) {
  min_ranks_ = "3";
  cooldown_ = "1000";
  const std::vector<std::string> options = {
      "--epochs",       "12", "--checkpoint-dir", checkpoints_.string(), "--resume",
      "--log-interval", "1"};
  const auto wait_in_vain = [&](const std::string& limit, const auto& end) {
    auto all = elastic_words(options);
    all.insert(all.begin() + 2, {"--elastic-timeout", limit});
    all.insert(all.begin(), {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"});  // what it says, too
    Program program(all);
    ASSERT_TRUE(program.wait_for_output("  step "));
    ::kill(ranks().front(), SIGKILL);
    ASSERT_TRUE(program.wait_for_output("2 of at least 3 ranks are left; waiting for others"));
    end(program);
    const auto ended = program.wait();
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_TRUE(contains(ended.standard_output, "; what they have is kept)"))
        << ended.standard_output;
    said_ = ended.standard_output;
  };
  wait_in_vain("600", [&](Program& program) { program.signal(SIGINT); });
  EXPECT_FALSE(contains(said_, "resuming after ")) << said_;
  wait_in_vain("600", [&](Program&) {
    for (const pid_t rank : ranks()) ::kill(rank, SIGTERM);
  });
  EXPECT_TRUE(contains(said_, "resuming after ")) << said_;
  wait_in_vain("1", [](Program&) {});
  EXPECT_TRUE(contains(said_, "resuming after ")) << said_;
  EXPECT_TRUE(vanish(mnist_.string()));
}

// A rank is lost while the others are on their way out, or has been asked to go itself.
TEST_F(ElasticTrain, ARankThatIsLostAtTheEndTakesNothingAlong) {
  const std::vector<std::string> options = {
      "--epochs",       "60", "--checkpoint-dir", checkpoints_.string(), "--resume",
      "--log-interval", "1"};
  for (const bool whole_job : {true, false}) {
    Program program(elastic_words(options));
    ASSERT_TRUE(program.wait_for_output("  step "));
    const auto all = ranks();
    ASSERT_EQ(all.size(), 3U);
    // The others are asked before, and perhaps out of their world, or in the midst of a step; or
    // afterwards.
    if (whole_job) program.signal(SIGINT);
    ::kill(all.back(), SIGKILL);
    for (std::size_t i = 0; i < 2 && !whole_job; ++i) ::kill(all[i], SIGTERM);
    const auto ended = program.wait(std::chrono::seconds{60});
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_EQ(contains(ended.standard_output, "resuming after "), !whole_job)
        << ended.standard_output << ended.standard_error;
  }
  Program program(elastic_words(options));
  EXPECT_TRUE(program.wait_for_output("resuming after ")) << program.output();
  program.signal(SIGTERM);
  program.wait();
}

TEST_F(ElasticTrain, AllHostsMayBeReplaced) {
  const auto hosts = directory_.path() / "hosts";
  const auto put = [&](const char* text) {
    std::ofstream(hosts.string() + ".new") << text << "\n";
    std::filesystem::rename(hosts.string() + ".new", hosts);
  };
  put("localhost:3");
  auto all = elastic_words({"--epochs", "60", "--log-interval", "1", "--report", report_.string()});
  all.insert(all.begin() + 2, {"--discover", "cat " + hosts.string(), "--max-np", "3"});
  Program program(all);
  ASSERT_TRUE(program.wait_for_output("step 5/"));
  put("127.0.0.1:3");
  const auto result = program.wait();
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  const auto report = read_json(report_);
  EXPECT_EQ(report["steps"], 60 * 34);
  ASSERT_GE(report["world_changes"].size(), 2U) << result.standard_error;
  EXPECT_TRUE(contains(report["world_changes"][0]["reason"].get<std::string>(), "come"));
  EXPECT_TRUE(contains(report["world_changes"][1]["reason"].get<std::string>(), "leaves"));
}

// Its first world is not the process's first: one of its own makes the model.
TEST_F(ElasticTrain, ATimelineHoldsAllWorlds) {
  const auto file = directory_.path() / "timeline.json";
  timeline_ = file.string();
  disturbed({"--epochs", "4"}, SIGKILL, 1, 6);
  std::set<int> worlds;
  const auto timeline = read_json(file);
  for (const auto& event : timeline["traceEvents"]) {
    if (event["ph"] == "X" && event["name"] == "BACKWARD")
      worlds.insert(event["args"]["world"].get<int>());
  }
  EXPECT_TRUE(worlds.contains(0) && worlds.contains(1)) << said_;
}

TEST_F(ElasticTrain, OptionsThatNeedRanksWhichStayAreRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--local-sgd", "4"}, "--local-sgd: ranks have weights of their own"}};
  for (const auto& [options, message] : cases) {
    const auto result = run_program(elastic_words(options));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing
