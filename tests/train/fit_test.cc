// The trainer with models that no recipe knows.
#include "sullae/train/fit.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sullae/torch.h"
#include "sullae/torch/parallel.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace train;

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  explicit NetImpl(std::int64_t outputs) : outputs_(outputs) { reset(); }
  void reset() override {
    hidden = register_module("hidden", torch::nn::Linear(4, 16));
    output = register_module("output", torch::nn::Linear(16, outputs_));
  }
  torch::Tensor forward(const torch::Tensor& x) { return output(torch::tanh(hidden(x))); }
  torch::nn::Linear hidden{nullptr}, output{nullptr};

 private:
  std::int64_t outputs_;
};
TORCH_MODULE(Net);

// Sums and differences of four numbers; an odd count, so that ranks have uneven parts.
TensorData numbers(std::int64_t count = 203) {
  torch::manual_seed(3);
  const auto x = torch::randn({count + 50, 4}, torch::kFloat64);
  const auto y = torch::stack({x.sum(1), x.select(1, 0) - x.select(1, 3)}, 1);
  return TensorData({x.slice(0, 0, count), y.slice(0, 0, count)},
                    {x.slice(0, count), y.slice(0, count)}, "sums");
}

// Two losses, weighed.
class SumAndDifference final : public Objective {
 public:
  torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override {
    const auto errors = errors_of(model, batch);
    return errors.select(1, 0).mean() + 0.5 * errors.select(1, 1).mean();
  }
  std::vector<Metric> metrics() const override {
    return {{.name = "sum_error", .higher_is_better = false},
            {.name = "difference_error", .higher_is_better = false}};
  }
  Tally measure(torch::nn::Module& model, const Batch& batch) const override {
    const auto sums = errors_of(model, batch).sum(0);
    const auto count = static_cast<double>(batch.size());
    const Sum first{sums[0].item<double>(), count};
    const Sum second{sums[1].item<double>(), count};
    return {.loss = {first.sum + 0.5 * second.sum, count}, .metrics = {first, second}};
  }

 private:
  static torch::Tensor errors_of(torch::nn::Module& model, const Batch& batch) {
    const auto out = dynamic_cast<NetImpl&>(model).forward(batch.inputs.at(0));
    return (out - batch.labels).square();
  }
};

struct Fitted {
  std::vector<torch::Tensor> weights;
  Report report;
};

Fitted fit_on(int ranks, TrainOptions options, const Objective& objective) {
  Fitted fitted;
  run_ranks({.size = ranks}, [&](World& world) {
    static std::mutex seeding;
    Net model{nullptr};
    std::optional<TensorData> data;
    {
      const std::lock_guard lock(seeding);  // the generator is the process's
      data.emplace(numbers());
      torch::manual_seed(7);
      model = Net(2);
    }
    model->to(torch::kFloat64);
    world.barrier();  // fit() draws from it, too
    Report report = fit(*model, objective, *data, options, "net", {}, world);
    if (world.rank() != 0) return;
    fitted.report = std::move(report);
    for (const auto& weight : model->parameters())
      fitted.weights.push_back(weight.detach().clone());
  });
  return fitted;
}

TEST(Fit, GivesOnManyRanksWhatItGivesOnOne) {
  TrainOptions options;
  options.epochs = 3;
  options.batch_size = 20;
  options.lr = 0.01;
  const SumAndDifference objective;
  const Fitted one = fit_on(1, options, objective);
  ASSERT_EQ(one.weights.size(), 4U);
  EXPECT_EQ(one.report.epochs, 3);
  EXPECT_EQ(one.report.steps, 33) << "the last of each epoch has 3 samples";
  EXPECT_LT(one.report.history.back().test_loss, one.report.history.front().test_loss);
  EXPECT_GT(one.report.test_metrics.at("sum_error"), 0);
  for (const int ranks : {2, 3, 5}) {
    const Fitted many = fit_on(ranks, options, objective);
    for (std::size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_LT((many.weights[i] - one.weights[i]).abs().max().item<double>(), 1e-10) << ranks;
    EXPECT_NEAR(many.report.test_loss, one.report.test_loss, 1e-10);
    EXPECT_NEAR(many.report.test_metrics.at("difference_error"),
                one.report.test_metrics.at("difference_error"), 1e-10);
  }
}

TEST(Fit, GoesOnWhereItStoppedAndKeepsTheBest) {
  const TemporaryDirectory directory;
  TrainOptions options;
  options.epochs = 4;
  options.batch_size = 16;
  options.lr = 0.01;
  const SumAndDifference objective;
  const Fitted whole = fit_on(2, options, objective);
  options.checkpoint_dir = directory.path() / "checkpoints";
  options.resume = true;
  options.epochs = 2;
  fit_on(2, options, objective);
  options.epochs = 4;
  const Fitted resumed = fit_on(2, options, objective);
  for (std::size_t i = 0; i < whole.weights.size(); ++i)
    EXPECT_TRUE(torch::equal(resumed.weights[i], whole.weights[i]));
  EXPECT_EQ(resumed.report.history.size(), 4U);

  // Less is better here.
  const auto best = directory.path() / "checkpoints" / "net-best.ckpt";
  ASSERT_TRUE(std::filesystem::exists(best));
  const auto metadata = read_checkpoint_metadata(best);
  const auto state = nlohmann::json::parse(metadata.texts.at("run"));
  double least = 1e9;
  for (const Fitted* const fitted : {&whole})
    for (const auto& epoch : fitted->report.history)
      least = std::min(least, epoch.test_metrics.at("sum_error"));
  EXPECT_DOUBLE_EQ(state.at("best_sum_error").get<double>(), least);
}

// Everything that it is told, on every rank.
class Listener final : public Observer {
 public:
  void started(const Report& report) override {
    said.push_back("started " + report.recipe + ", " + report.metrics.at(0).name);
  }
  void stepped(const Moment&) override { ++steps; }
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override {
    said.push_back("epoch " + std::to_string(epoch.epoch) + " of " + std::to_string(moment.epochs));
    EXPECT_EQ(epoch.test_metrics.size(), 2U);
  }
  void ended(const Report& report) override {
    said.push_back("ended " + std::to_string(report.steps));
  }

  std::vector<std::string> said;
  int steps = 0;
};

TEST(Fit, TellsObservers) {
  run_ranks({.size = 2}, [](World& world) {
    auto data = numbers(10);
    Net model(2);
    model->to(torch::kFloat64);
    Listener listener;
    TrainOptions options;
    options.epochs = 2;
    options.batch_size = 4;
    fit(*model, SumAndDifference(), data, options, "net", {&listener}, world);
    EXPECT_EQ(listener.said, (std::vector<std::string>{"started net, sum_error", "epoch 1 of 2",
                                                       "epoch 2 of 2", "ended 6"}));
    EXPECT_EQ(listener.steps, 6);
  });
}

TEST(Fit, WorksWithoutATestAndWithReplicas) {
  run_ranks({.size = 2}, [](World& world) {
    torch::manual_seed(1);
    TensorData data({torch::randn({20, 4}), torch::randint(3, {20})});
    Net model(3);
    TrainOptions options;
    options.batch_size = 8;
    options.scale_up = 2;
    const Report report =
        fit(*model, Classification(forward_of<NetImpl>()), data, options, "net", {}, world);
    EXPECT_EQ(report.steps, 3);
    EXPECT_TRUE(report.test_metrics.empty());
    EXPECT_FALSE(report.tested);
  });
}

// Norms over the ranks of a world of the test's.
struct NormedImpl : torch::nn::Module {
  explicit NormedImpl(World its) : world(std::move(its)) {
    norm = register_module("norm", SyncBatchNorm2d(1));
    output = register_module("output", torch::nn::Linear(4, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto normed = sync_batch_norm(x.view({-1, 1, 2, 2}), *norm, world);
    return output(normed.flatten(1));
  }
  World world;
  SyncBatchNorm2d norm{nullptr};
  torch::nn::Linear output{nullptr};
};

TEST(Fit, SeesThatNormsWaitForEachOther) {
  run_ranks({.size = 2}, [](World& world) {
    TensorData data({torch::randn({17, 4}), torch::randint(2, {17})});
    NormedImpl model(world);
    TrainOptions options;
    options.batch_size = 4;
    const Report report =
        fit(model, Classification(forward_of<NormedImpl>()), data, options, "net", {}, world);
    EXPECT_EQ(report.steps, 4) << "the last sample is no step of two ranks";
  });
}

TEST(Fit, ANumberThatIsNoneIsNeitherBestNorTheEnd) {
  class Broken final : public Objective {
   public:
    torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override {
      const auto out = dynamic_cast<NetImpl&>(model).forward(batch.inputs.at(0));
      const auto loss = (out - batch.labels).square().mean();
      return broken ? loss + std::numeric_limits<double>::quiet_NaN() : loss;
    }
    mutable bool broken = true;
  };
  const TemporaryDirectory directory;
  TrainOptions options;
  options.batch_size = 16;
  options.lr = 1e-30;
  options.checkpoint_dir = directory.path() / "checkpoints";
  options.report = directory.path() / "report.json";
  options.metrics_file = directory.path() / "metrics.prom";
  options.resume = true;
  run_ranks({.size = 1}, [&](World& world) {
    torch::manual_seed(5);
    TensorData data(
        {torch::randn({40, 4}, torch::kFloat64), torch::randn({40, 2}, torch::kFloat64)});
    Net model(2);
    model->to(torch::kFloat64);
    Broken objective;
    Report report = fit(*model, objective, data, options, "net", {}, world);
    EXPECT_TRUE(std::isnan(report.train_loss));
    EXPECT_TRUE(std::isnan(Report::read(options.report).train_loss));
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "checkpoints" / "net-best.ckpt"));
    const std::string text = content_of(options.metrics_file);
    EXPECT_FALSE(contains(text, "test_loss")) << "nothing was tested";

    Net again(2);
    again->to(torch::kFloat64);
    objective.broken = false;
    options.epochs = 2;
    report = fit(*again, objective, data, options, "net", {}, world);
    EXPECT_EQ(report.steps, 6);
  });
}

TEST(Fit, ResumesWithinAnEpochWithAnotherBatchSize) {
  class Two final : public Objective {
   public:
    torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override {
      return 0 * dynamic_cast<NetImpl&>(model).forward(batch.inputs.at(0)).sum() + 2;
    }
  };
  const TemporaryDirectory directory;
  TrainOptions options;
  options.batch_size = 8;
  options.max_steps = 3;
  options.checkpoint_dir = directory.path() / "checkpoints";
  options.resume = true;
  run_ranks({.size = 1}, [&](World& world) {
    TensorData data({torch::randn({64, 4}), torch::randn({64, 2})});
    Net model(2);
    fit(*model, Two(), data, options, "net", {}, world);
    options.max_steps = 0;
    options.batch_size = 4;
    const Report report = fit(*model, Two(), data, options, "net", {}, world);
    EXPECT_EQ(report.steps, 3 + 10);
    EXPECT_DOUBLE_EQ(report.train_loss, 2);
  });
}

// Each rank with its own part of the data, as other trainers want it, or with a learning rate of
// its own.
TEST(Fit, SaysWhereRanksWereGivenOtherThings) {
  const auto error_with = [](const std::function<void(int, TrainOptions&, std::int64_t&)>& change) {
    std::string error;
    run_ranks({.size = 2}, [&](World& world) {
      TrainOptions options{.epochs = 1, .batch_size = 8};
      std::int64_t samples = 40;
      change(world.rank(), options, samples);
      Net net(2);
      net->to(torch::kFloat64);
      auto data = numbers(samples);
      const auto mine = error_of<MismatchError>(
          [&] { fit(*net, SumAndDifference(), data, options, "sums", {}, world); });
      if (world.rank() == 1) error = mine;
    });
    return error;
  };
  EXPECT_EQ(error_with([](int rank, TrainOptions& options, auto&) {
              options.lr = rank == 0 ? 0.1 : 0.01;
            }),
            "ranks disagree: lr is 0.1 on rank 0, and 0.01 on rank 1: expected the same options on "
            "every rank");
  EXPECT_EQ(error_with([](int rank, auto&, std::int64_t& samples) { samples += rank; }),
            "ranks disagree: the number of samples to train on is 40 on rank 0, and 41 on rank 1: "
            "expected all of them on every rank: the training divides them itself");
  // One of which is wrong: the other does not wait for it.
  EXPECT_EQ(
      error_with([](int rank, TrainOptions& options, auto&) { options.batch_size = 8 * rank; }),
      "ranks disagree: batch_size is 0 on rank 0, and 8 on rank 1: expected the same options on "
      "every rank");
}

TEST(Fit, SaysWhatIsWrong) {
  run_ranks({.size = 1}, [](World& world) {
    Net model(2);
    TensorData none({torch::zeros({0, 4}), torch::zeros({0, 2})});
    const SumAndDifference objective;
    EXPECT_EQ(error_of([&] { fit(*model, objective, none, {}, "net", {}, world); }),
              "there are no samples to train on");
    EXPECT_EQ(error_of([] {
                TensorData({torch::zeros({3, 4}), torch::zeros({2})});
              }),
              "TensorData: 3 inputs and 2 labels for the training: expected equally many");
    auto data = numbers();
    model->to(torch::kFloat64);
    TrainOptions options;
    options.epochs = 0;
    EXPECT_EQ(error_of([&] { fit(*model, objective, data, options, "net", {}, world); }),
              "--epochs 0: expected 1 or more");
    options = {};
    options.log_interval = 0;
    EXPECT_EQ(error_of([&] { fit(*model, objective, data, options, "net", {}, world); }),
              "--log-interval 0: expected 1 or more");
    options = {};
    options.sync_batch_norm = true;
    EXPECT_EQ(error_of([&] { fit(*model, objective, data, options, "net", {}, world); }),
              "--sync-batch-norm: the model has no SyncBatchNorm2d");
    for (const std::string name : {"", "team/net", "a b", "\"\n"}) {
      EXPECT_EQ(error_of([&] { fit(*model, objective, data, {}, name, {}, world); }),
                "fit: the name '" + name + "': expected letters, digits, '_', '-' and '.'");
    }
    class Vague final : public Objective {
      torch::Tensor loss(torch::nn::Module& module, const Batch& batch) const override {
        return dynamic_cast<NetImpl&>(module).forward(batch.inputs[0]);
      }
    };
    EXPECT_EQ(error_of([&] { fit(*model, Vague(), data, {}, "net", {}, world); }),
              "Objective::loss gave 128 numbers, expected one");
  });
}

}  // namespace
}  // namespace sullae::testing
