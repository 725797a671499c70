// A training that is asked to end: it leaves a checkpoint and a word, and goes on as if nothing had
// been.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>

#include "sullae/train/fit.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

using namespace train;

// Raises a signal at a step.
class Interruption final : public Observer {
 public:
  Interruption(std::int64_t step, int signal) : step_(step), signal_(signal) {}
  void stepped(const Moment& moment) override {
    if (moment.total_steps == step_) std::raise(signal_);
  }
  void stopped(const std::string& why) override { said += "stopped: " + why; }
  void failed(const std::string& why) override { said += "failed: " + why; }
  void ended(const Report&) override { said += "ended"; }

  std::string said;

 private:
  std::int64_t step_;
  int signal_;
};

class Stop : public Train {
 protected:
  // Ten steps an epoch. Returns the weights, or nothing where it was stopped.
  torch::Tensor fit_line(Interruption& interruption, const std::filesystem::path& checkpoints) {
    torch::manual_seed(1);
    torch::nn::Linear line(1, 1);
    const auto x = torch::linspace(-1, 1, 40).unsqueeze(1);
    TensorData data({x, 3 * x + 1}, {x, 3 * x + 1});
    const Regression objective(forward_of<torch::nn::LinearImpl>());
    try {
      fit(*line, objective, data,
          {.epochs = 3,
           .batch_size = 4,
           .optimizer = "sgd",
           .lr = 0.05,
           .device = "cpu",
           .checkpoint_dir = checkpoints,
           .resume = !checkpoints.empty(),
           .end_on_signals = true},
          "line", {&interruption}, World::create({}));
    } catch (const Stopped& stopped) {
      signal_ = stopped.signal();
      return {};
    }
    return line->weight.detach().clone();
  }
  pid_t process_of_rank_1() const {
    for (const pid_t pid : processes_with(mnist_.string())) {
      const std::string text = content_of("/proc/" + std::to_string(pid) + "/environ");
      if (contains(text, "SULLAE_RANK=1")) return pid;
    }
    return 0;
  }
  int signal_ = 0;
  const HiddenGpus hidden_;
};

TEST_F(Stop, AfterTheStepWithACheckpointThatGoesOnToTheBit) {
  Interruption never(0, SIGTERM);
  const auto straight = fit_line(never, {});
  EXPECT_EQ(never.said, "ended");
  // The first step, one in the middle, the last of an epoch, the first after it, the last of all.
  for (const int step : {1, 15, 20, 21, 30}) {
    std::filesystem::remove_all(checkpoints_);
    Interruption interruption(step, step == 15 ? SIGINT : SIGTERM);
    EXPECT_FALSE(fit_line(interruption, checkpoints_).defined()) << step;
    EXPECT_EQ(signal_, step == 15 ? SIGINT : SIGTERM);
    EXPECT_TRUE(contains(
        interruption.said,
        fmt::format("stopped: asked to end ({}): stopped after step {} of epoch {}; --resume goes "
                    "on from ",
                    step == 15 ? "Interrupt" : "Terminated", (step - 1) % 10 + 1,
                    (step - 1) / 10 + 1)))
        << interruption.said;
    const auto resumed = fit_line(never, checkpoints_);
    ASSERT_TRUE(resumed.defined());
    EXPECT_TRUE(torch::equal(resumed, straight)) << step;
  }
}

// Signals that come in a test, which may be long.
class InterruptedTest final : public Data {
 public:
  explicit InterruptedTest(const TensorData::Samples& samples) : data_(samples, samples) {}
  std::size_t size(Split split) const override { return data_.size(split); }
  std::string data_description() const override { return data_.data_description(); }
  std::unique_ptr<BatchStream> batches(Split split, BatchPlan plan, std::size_t epoch) override {
    if (split == Split::test && epoch == 2 && std::exchange(is_left_, false)) std::raise(SIGINT);
    return data_.batches(split, std::move(plan), epoch);
  }

 private:
  TensorData data_;
  bool is_left_ = true;
};

TEST_F(Stop, InATestWhichIsMadeAgain) {
  const auto x = torch::linspace(-1, 1, 40).unsqueeze(1);
  InterruptedTest data({x, 3 * x + 1});
  const Regression objective(forward_of<torch::nn::LinearImpl>());
  const auto fit_to = [&](Interruption& said) {
    torch::manual_seed(1);
    torch::nn::Linear line(1, 1);
    return fit(*line, objective, data,
               {.epochs = 3,
                .batch_size = 4,
                .device = "cpu",
                .checkpoint_dir = checkpoints_,
                .resume = true,
                .end_on_signals = true},
               "line", {&said}, World::create({}));
  };
  Interruption said(0, SIGTERM);
  EXPECT_THROW(fit_to(said), Stopped);
  EXPECT_TRUE(contains(said.said,
                       "asked to end (Interrupt): stopped after step 10 of epoch 2; "
                       "--resume goes on from "))
      << said.said;
  const auto report = fit_to(said);
  EXPECT_EQ(report.epochs, 3);
  ASSERT_EQ(report.history.size(), 3U);
  for (int epoch = 1; epoch <= 3; ++epoch)
    EXPECT_EQ(report.history[static_cast<std::size_t>(epoch - 1)].epoch, epoch);
}

// timeout(1), systemd and batch systems signal a process more than once.
TEST_F(Stop, TheSameRequestMayComeTwice) {
  Program program({"timeout", "600", sullae_program(), "train", "mnist", "--data", mnist_.string(),
                   "--epochs", "1000", "--checkpoint-dir", checkpoints_.string()});
  ASSERT_TRUE(program.wait_for_output("epoch 1/1000"));
  program.signal(SIGTERM);  // which it gives to its child, and to its group, of which that is
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.standard_output << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "; --resume goes on from "))
      << result.standard_output;
}

TEST_F(Stop, WithoutAFolderForCheckpointsItIsSaidAllTheSame) {
  Interruption interruption(3, SIGTERM);
  EXPECT_FALSE(fit_line(interruption, {}).defined());
  EXPECT_EQ(interruption.said,
            "stopped: asked to end (Terminated): stopped after step 3 of epoch 1");
}

// Whoever is asked: the launcher, which asks all, or one rank.
TEST_F(Stop, AllRanksStopAtTheSameStep) {
  const auto with = [](std::vector<std::string> options) {
    options.insert(options.end(), {"--lr-schedule", "constant"});
    return options;
  };
  ASSERT_EQ(train(2, with({"--epochs", "3", "--report", report_})).exit_code, 0);
  const double straight = read_json(report_).at("test_loss");
  const auto run = directory_.path() / "run";
  for (const bool asks_one : {false, true}) {
    std::filesystem::remove_all(checkpoints_);
    std::filesystem::remove_all(run);
    Program program(words(2, with({"--epochs", "100", "--checkpoint-dir", checkpoints_, "--run-dir",
                                   run, "--log-interval", "1"})));
    ASSERT_TRUE(program.wait_for_output("step 10/"));
    if (asks_one) {
      const pid_t rank_1 = process_of_rank_1();
      ASSERT_GT(rank_1, 0);
      ::kill(rank_1, SIGTERM);
    } else {
      program.signal(SIGTERM);
    }
    const auto result = program.wait();
    EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.standard_output << result.standard_error;
    EXPECT_TRUE(contains(result.standard_output, "asked to end (Terminated): stopped after step "))
        << result.standard_output;
    EXPECT_FALSE(contains(result.standard_error, "left the world")) << result.standard_error;
    const auto record = read_json(run / "run.json");
    EXPECT_EQ(record.at("ended").at("how"), "stopped");
    EXPECT_TRUE(contains(record.at("ended").at("reason").get<std::string>(), "--resume goes on"));
    // Where it is before the end of the third epoch, it goes on to the bit.
    if (!asks_one && record.at("step") < 102) {
      const auto resumed = train(2, with({"--epochs", "3", "--checkpoint-dir", checkpoints_,
                                          "--resume", "--report", report_}));
      EXPECT_EQ(resumed.exit_code, 0) << resumed.standard_error;
      EXPECT_EQ(read_json(report_).at("test_loss").get<double>(), straight);
    }
    EXPECT_TRUE(vanish(mnist_.string()));
  }
}

}  // namespace
}  // namespace sullae::testing
