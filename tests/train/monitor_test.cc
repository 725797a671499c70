// What a run shows: TensorBoard's files, Prometheus' metrics, reports and their pages.
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "event.pb.h"
#include "runs/history.h"
#include "sullae/data/tfrecord.h"
#include "support/errors.h"
#include "train/fixture.h"
#include "train/monitor/event_file.h"
#include "train/monitor/metrics_file.h"
#include "train/monitor/plot.h"
#include "train/monitor/progress.h"
#include "train/small_prose.h"

namespace sullae::testing {
namespace {

class Monitor : public Train {
 protected:
  static std::string read(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
};

TEST_F(Monitor, EventFilesHoldCurvesThatTensorBoardReads) {
  const auto folder = directory_.path() / "events";
  ASSERT_EQ(
      train(2, {"--epochs", "2", "--log-interval", "10", "--tensorboard-dir", folder}).exit_code,
      0);
  const auto files = files_in(folder);
  ASSERT_EQ(files.size(), 1U) << "rank 0 alone writes";
  EXPECT_TRUE(files[0].starts_with("events.out.tfevents."));
  data::TFRecordReader reader(folder / files[0]);
  std::map<std::string, std::vector<std::int64_t>> steps;
  bool first = true;
  while (const auto record = reader.next()) {
    train::proto::Event event;
    ASSERT_TRUE(event.ParseFromArray(record->data(), static_cast<int>(record->size())));
    EXPECT_EQ(event.file_version(), std::exchange(first, false) ? "brain.Event:2" : "");
    for (const auto& value : event.summary().value()) steps[value.tag()].push_back(event.step());
  }
  EXPECT_EQ(steps["train/loss"], (std::vector<std::int64_t>{10, 20, 30, 34, 40, 50, 60, 68}));
  EXPECT_EQ(steps["test/accuracy"], (std::vector<std::int64_t>{34, 68}));
}

// A full disk.
TEST_F(Monitor, WhatCannotBeWrittenForAWhileEndsNothing) {
  const auto folder = directory_.path() / "events";
  const auto scrape = directory_.path() / "scrape";
  std::filesystem::create_directories(scrape);
  train::EventFile events(folder, 1);
  train::MetricsFile metrics(scrape / "m.prom", 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto on_full = std::signal(SIGXFSZ, SIG_IGN);
  ::testing::internal::CaptureStderr();
  for (int step = 1; step <= 23; ++step) {
    rlimit limit = before;
    if (step == 21 || step == 22)
      limit.rlim_cur = 2000;  // less than both files, and enough for what is told
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const train::Moment moment{.step = step, .total_steps = step, .loss = 1};
    events.stepped(moment);
    metrics.stepped(moment);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string told = ::testing::internal::GetCapturedStderr();
  std::signal(SIGXFSZ, on_full);
  for (const char* const option : {"--tensorboard-dir: ", "--metrics-file: "}) {
    EXPECT_TRUE(contains(told, option)) << told;
    EXPECT_EQ(told.find(option), told.rfind(option)) << "is told once\n" << told;
  }
  EXPECT_TRUE(contains(told, "File too large; the training goes on")) << told;
  data::TFRecordReader reader(folder / files_in(folder).at(0));
  std::vector<std::int64_t> steps;
  while (const auto record = reader.next()) {
    train::proto::Event event;
    ASSERT_TRUE(event.ParseFromArray(record->data(), static_cast<int>(record->size())));
    if (event.summary().value_size() > 0) steps.push_back(event.step());
  }
  EXPECT_EQ(steps.size(), 21U);
  EXPECT_EQ(steps.back(), 23);
  EXPECT_TRUE(contains(read(scrape / "m.prom"), "sullae_training_steps_total{recipe=\"\"} 23\n"));
}

TEST_F(Monitor, WhatHasDivergedIsToldAndNotExported) {
  const auto models = directory_.path() / "models";
  const auto result = train(1, {"--max-steps", "6", "--lr", "1e30", "--export", models});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_output, "the loss is no number any more: a lower --lr"))
      << result.standard_output;
  EXPECT_TRUE(
      contains(result.standard_error,
               "--export: the loss is no number any more, and the weights are not exported"))
      << result.standard_error;
  EXPECT_FALSE(std::filesystem::exists(models / "mnist"));
}

TEST_F(Monitor, MetricsAreInPrometheusFormat) {
  const auto file = directory_.path() / "metrics" / "train.prom";
  ASSERT_EQ(train(1, {"--epochs", "1", "--metrics-file", file}).exit_code, 0);
  std::istringstream lines(read(file));
  int samples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    EXPECT_TRUE(line.starts_with("sullae_training_")) << line;
    EXPECT_TRUE(contains(line, "{recipe=\"mnist\"} ")) << line;
    ++samples;
  }
  EXPECT_GE(samples, 10);
  EXPECT_TRUE(contains(read(file), "sullae_training_steps_total{recipe=\"mnist\"} 34\n"));
}

TEST_F(Monitor, TheRunsFolderHasItsCurvesSettingsAndEnd) {
  const auto folder = directory_.path() / "runs" / "first";
  const std::vector<std::string> options = {"--epochs",  "2",   "--log-interval",   "10",
                                            "--lr",      "0.1", "--checkpoint-dir", checkpoints_,
                                            "--run-dir", folder};
  ASSERT_EQ(train(2, options).exit_code, 0);
  const auto record = read_json(folder / "run.json");
  EXPECT_EQ(record.at("ended").at("how"), "completed");
  EXPECT_EQ(record.at("ranks"), 2);
  EXPECT_EQ(record.at("steps"), 68);
  EXPECT_EQ(record.at("step"), 68);
  EXPECT_EQ(record.at("settings").at("lr"), "0.1");
  EXPECT_EQ(record.at("settings").at("recipe"), "mnist");
  EXPECT_EQ(record.at("settings").at("batch-size"), "60");
  EXPECT_FALSE(record.at("settings").contains("run-dir")) << "which is no difference between runs";
  EXPECT_TRUE(record.at("latest").contains("test/accuracy"));
  runs::History history(folder / "metrics.jsonl");
  history.update();
  std::vector<std::int64_t> steps;
  for (const auto row : history.find("train/loss")->rows) steps.push_back(history.steps()[row]);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{10, 20, 30, 34, 40, 50, 60, 68}));
  EXPECT_EQ(history.find("test/accuracy")->rows.size(), 2U);

  const auto again = train(1, options);
  EXPECT_NE(again.exit_code, 0);
  EXPECT_TRUE(contains(again.standard_error,
                       "there is a run in it already: expected another folder, or to go on with it "
                       "(--resume, or resume)"))
      << again.standard_error;
  auto longer = options;
  longer[1] = "3";
  longer.emplace_back("--resume");
  ASSERT_EQ(train(1, longer).exit_code, 0);
  history.update();
  EXPECT_EQ(history.steps().back(), 102);
  EXPECT_TRUE(contains(history.notes().at(0).text, "resuming after epoch 2"));
  EXPECT_EQ(read_json(folder / "run.json").at("steps"), 102);
}

TEST_F(Monitor, ARunThatIsCutShortIsWhole) {
  const auto folder = directory_.path() / "run";
  ASSERT_EQ(train(1, {"--epochs", "3", "--max-steps", "45", "--run-dir", folder}).exit_code, 0);
  const auto record = read_json(folder / "run.json");
  EXPECT_EQ(record.at("steps"), 45);
  EXPECT_EQ(record.at("step"), 45);
  runs::History history(folder / "metrics.jsonl");
  history.update();
  EXPECT_EQ(history.steps()[history.find("train/loss")->rows.back()], 45);
  EXPECT_EQ(history.damaged(), 0U);
}

TEST_F(Monitor, ARunThatFailsSaysWhy) {
  const auto folder = directory_.path() / "run";
  // Files may have 16 KB: a record of the run does, a checkpoint does not.
  const auto result =
      run_program({"bash", "-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "bash",
                   sullae_program(), "train", "mnist", "--data", mnist_, "--batch-size", "60",
                   "--epochs", "1", "--checkpoint-dir", checkpoints_, "--run-dir", folder});
  EXPECT_NE(result.exit_code, 0);
  const auto ended = read_json(folder / "run.json").at("ended");
  EXPECT_EQ(ended.at("how"), "failed");
  EXPECT_TRUE(contains(ended.at("reason").get<std::string>(), "File too large")) << ended;
}

TEST_F(Monitor, AFullDiskTakesPointsAndNotTheTraining) {
  const auto folder = directory_.path() / "run";
  // Files may have 4 KB, which stands for a disk that has no more.
  const auto result =
      run_program({"bash", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "bash", sullae_program(),
                   "train", "mnist", "--data", mnist_, "--batch-size", "60", "--epochs", "1",
                   "--log-interval", "1", "--run-dir", folder});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "--run-dir: ")) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "File too large; the training goes on"))
      << result.standard_error;
  runs::History history(folder / "metrics.jsonl");
  history.update();
  EXPECT_GT(history.steps().size(), 5U);
  EXPECT_EQ(history.damaged(), 0U);
  EXPECT_EQ(read_json(folder / "run.json").at("ended").at("how"), "completed");
}

TEST_F(Monitor, AReportHasAPageThatNeedsNothingElse) {
  ASSERT_EQ(train(2, {"--epochs", "2", "--report", report_}).exit_code, 0);
  const auto report = read_json(report_);
  ASSERT_EQ(report.at("history").size(), 2U);
  EXPECT_EQ(report.at("history")[1].at("epoch"), 2);
  EXPECT_TRUE(contains(report.at("configuration").get<std::string>(), "batch-size = 60\n"));
  auto page_file = report_;
  const auto page = read(page_file.replace_extension(".html"));
  for (const char* part :
       {"<svg", "Test accuracy", "Throughput", "batch-size = 60", "waiting for ranks"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_FALSE(contains(page, "scaling efficiency"));  // there is nothing to compare with
  for (const char* outside : {"http:", "https:", "<script", "src="})
    EXPECT_FALSE(contains(page, outside)) << outside;
}

TEST_F(Monitor, ScalingComparesReplicasWithProcesses) {
  const auto page = directory_.path() / "scaling.html";
  const auto result = run_program({sullae_program(), "scaling", "mnist", "--np", "1,2", "--output",
                                   page, "--data", mnist_, "--epochs", "1", "--batch-size", "60"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "efficiency")) << result.standard_output;
  std::ifstream stream(directory_.path() / "scaling.json");
  const auto results = nlohmann::json::parse(stream).at("results");
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[1].at("way"), "scale-up");
  EXPECT_EQ(results[3].at("way"), "scale-out");
  EXPECT_EQ(results[3].at("workers"), 2);
  EXPECT_TRUE(contains(read(page), "<svg"));
  EXPECT_TRUE(results[3].contains("test_accuracy"));
  const auto wrong = run_program({sullae_program(), "scaling", "mnist", "--np", "1,x"});
  EXPECT_TRUE(contains(wrong.standard_error, "--np 1,x: expected numbers from 1"));
  const auto unknown = run_program({sullae_program(), "scaling", "vgg"});
  EXPECT_TRUE(contains(unknown.standard_error, "'vgg' is no model, expected one of mnist"));
}

// Whatever its test measures; and the exit code is that of the training that failed.
TEST_F(Monitor, ScalingTakesAllRecipes) {
  write_small_prose(directory_.path() / "prose");
  const auto result = run_program({sullae_program(),
                                   "scaling",
                                   "gpt",
                                   "--np",
                                   "1",
                                   "--way",
                                   "out",
                                   "--data",
                                   directory_.path() / "prose",
                                   "--max-steps",
                                   "8",
                                   "--batch-size",
                                   "4",
                                   "--layers",
                                   "1",
                                   "--embedding-size",
                                   "16",
                                   "--heads",
                                   "2",
                                   "--context",
                                   "12",
                                   "--pieces",
                                   "400"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "perplexity    samples/s"))
      << result.standard_output;
  const auto failed =
      run_program({sullae_program(), "scaling", "mnist", "--np", "1", "--data", "/nowhere"});
  EXPECT_EQ(failed.exit_code, 1);
}

TEST(Durations, AreShort) {
  EXPECT_EQ(train::format_duration(0.2), "0 s");
  EXPECT_EQ(train::format_duration(59.4), "59 s");
  EXPECT_EQ(train::format_duration(61), "1:01");
  EXPECT_EQ(train::format_duration(3723), "1:02:03");
}

TEST(Plots, StandAnyNumbers) {
  EXPECT_EQ(train::plot({}, {}), "");
  EXPECT_EQ(train::plot({{.name = "empty", .x = {}, .y = {}}}, {}), "");
  for (const auto& y : {std::vector<double>{1},
                        {0, 0},
                        {-5, 5},
                        {1e-9, 2e-9},
                        {1e12, -1e12},
                        {1, NAN},
                        {0.6931471805599453, 0.6931471805599454},
                        {1e17, 1e17 + 16}}) {
    std::vector<double> x(y.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    const auto svg = train::plot({{.name = "<a>", .x = x, .y = y}}, {.title = "t"});
    EXPECT_TRUE(contains(svg, "&lt;a&gt;"));
    EXPECT_FALSE(contains(svg, "nan"));
    EXPECT_FALSE(contains(svg, "inf"));
  }
}

}  // namespace
}  // namespace sullae::testing
