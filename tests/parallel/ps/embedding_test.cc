// Tables on servers train as embeddings that one process holds.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "sullae/ps.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/parameter_servers.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kRows = 50;
constexpr std::int64_t kDimension = 6;

ps::WorkerOptions a_worker(const RunningServers& servers, int worker) {
  return {.servers = servers.endpoints(), .worker = worker, .timeout = std::chrono::seconds{30}};
}

// Some twice, and in two dimensions.
torch::Tensor numbers(int step) {
  return ((torch::arange(24) * 7 + step * 5) % kRows).remainder(17).view({8, 3});
}

torch::Tensor loss_of(const torch::Tensor& rows) {
  const auto weights = torch::sin(torch::arange(kDimension, torch::kFloat32) + 1);
  return torch::tanh(rows * weights).sum({1, 2}).square().mean();
}

torch::Tensor first_rows(ps::Embedding& table) {
  const torch::NoGradGuard guard;
  return table(torch::arange(kRows)).clone();
}

// An embedding in this process, whose gradients are sparse.
template <class Optimizer, class Options>
void expect_as_local_embedding(const Options& options) {
  for (const int count : {1, 3}) {
    RunningServers servers(count, {});
    ps::Embedding table(ps::EmbeddingOptions{.dimension = kDimension, .rule = options},
                        a_worker(servers, 0));
    torch::nn::Embedding local(
        torch::nn::EmbeddingOptions(kRows, kDimension).sparse(true)._weight(first_rows(table)));
    Optimizer optimizer(local->parameters(), options);
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      loss_of(local(numbers(step))).backward();
      optimizer.step();

      loss_of(table(numbers(step))).backward();
      table->step();
    }
    EXPECT_TRUE(torch::allclose(first_rows(table), local->weight, 0, 1e-6));
  }
}

TEST(PsEmbedding, TrainsAsAnEmbeddingWithSparseGradients) {
  using namespace torch::optim;
  expect_as_local_embedding<SGD>(SGDOptions(0.1));
  expect_as_local_embedding<Adagrad>(AdagradOptions(0.1));
  expect_as_local_embedding<sullae::Adam>(AdamOptions(0.01));
}

TEST(PsEmbedding, TrainsWithoutStalenessAsOneProcess) {
  const ps::EmbeddingOptions options{.dimension = kDimension,
                                     .rule = torch::optim::AdagradOptions(0.1)};
  torch::Tensor expected;
  for (const int workers : {1, 2, 4}) {
    RunningServers servers(2, {.workers = workers});
    std::vector<torch::Tensor> results(static_cast<std::size_t>(workers));
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers; ++worker) {
      threads.emplace_back([&, worker] {
        ps::Embedding table(options, a_worker(servers, worker));
        for (int step = 0; step < 10; ++step) {
          loss_of(table(numbers(step).chunk(workers)[worker])).backward();
          table->step();
        }
        results[static_cast<std::size_t>(worker)] = first_rows(table);
      });
    }
    threads.clear();
    if (!expected.defined()) expected = results.front();
    for (const auto& result : results)
      EXPECT_TRUE(torch::allclose(result, expected, 0, 1e-6)) << workers;
  }
}

// Two look-ups, one without a backward pass, and one that was forgotten.
TEST(PsEmbedding, StepTakesWhatWasBackpropagatedSinceTheLast) {
  RunningServers servers(2, {});
  ps::Embedding table(
      ps::EmbeddingOptions{
          .dimension = 2, .rule = torch::optim::SGDOptions(1), .deviation = 0, .padding_id = 0},
      a_worker(servers, 0));
  const auto ids = [](std::vector<std::int64_t> numbers) {
    return torch::tensor(numbers);
  };
  table(ids({1})).sum().backward();
  table->zero_grad();
  (table(ids({1, 2, 2})).sum() + table(ids({0, 2, 3})).sum()).backward();
  table(ids({4}));
  table->step();
  const auto later = table(ids({5})).sum();
  table->zero_grad();  // which does not forget what has no gradient yet
  later.backward();
  table->step();
  const torch::NoGradGuard guard;
  const auto rows = table(ids({0, 1, 2, 3, 4, 5})).select(1, 0);
  EXPECT_TRUE(torch::equal(rows, torch::tensor({0.F, -1.F, -3.F, -1.F, 0.F, -1.F}))) << rows;
  EXPECT_EQ(table->gather().ids.numel(), 4) << "padding is no row";
  EXPECT_EQ(table(torch::empty({0, 4}, torch::kInt64)).sizes(), (torch::IntArrayRef{0, 4, 2}));
  EXPECT_TRUE(table->parameters().empty());
  table->set_learning_rate(0.25);
  EXPECT_EQ(table->learning_rate(), 0.25);
}

TEST(PsEmbedding, RowsGoFromOneTableToAnother) {
  const ps::EmbeddingOptions options{.dimension = 3, .rule = torch::optim::AdamOptions(0.1)};
  const auto train = [](ps::Embedding& table, int step) {
    loss_of(table(numbers(step)).repeat({1, 1, 2})).backward();
    table->step();
  };
  RunningServers servers(2, {});
  ps::Embedding table(options, a_worker(servers, 0));
  for (int step = 0; step < 3; ++step) train(table, step);
  const auto saved = table->gather();
  EXPECT_TRUE(torch::equal(saved.ids, std::get<0>(saved.ids.sort())));
  train(table, 3);
  const auto expected = table->gather();

  RunningServers others(3, {});
  ps::Embedding again(options, a_worker(others, 0));
  train(again, 9);
  again->scatter(saved);
  train(again, 3);
  const auto rows = again->gather();
  EXPECT_TRUE(torch::equal(rows.ids, expected.ids));
  EXPECT_TRUE(torch::equal(rows.values, expected.values));
  EXPECT_EQ(rows.steps, 4);
  EXPECT_TRUE(torch::equal(rows.first, expected.first));
  EXPECT_TRUE(torch::equal(rows.second, expected.second));
  again->scatter({.ids = torch::empty({0}, torch::kInt64),
                  .values = torch::empty({0, 3}),
                  .first = torch::empty({0, 3}),
                  .second = torch::empty({0, 3})});
  EXPECT_EQ(again->gather().ids.numel(), 0);
}

// The dense part's gradients may go by servers, too.
TEST(PsEmbedding, GoesWithAnOptimizerOnTheSameServers) {
  RunningServers servers(2, {});
  const auto worker = a_worker(servers, 0);
  ps::Embedding words(
      ps::EmbeddingOptions{.dimension = 4, .rule = torch::optim::AdagradOptions(0.5)}, worker);
  torch::nn::Linear out(4, 1);
  ps::ParameterServerOptimizer optimizer(out->named_parameters(), torch::optim::SGDOptions(0.1),
                                         worker);
  const auto ids = torch::arange(10);
  const auto wanted = torch::cos(ids.to(torch::kFloat32)).unsqueeze(1);
  double last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const auto loss = (out(words(ids)) - wanted).square().mean();
    loss.backward();
    optimizer.step();
    words->step();
    last = loss.item<double>();
  }
  EXPECT_LT(last, 1e-3);
}

TEST(PsEmbedding, SaysWhatCannotBe) {
  RunningServers servers(1, {});
  const auto made = [&](const ps::EmbeddingOptions& options) {
    return error_of([&] { ps::Embedding(options, a_worker(servers, 0)); });
  };
  EXPECT_EQ(made({}), "ps::Embedding: rows of 0 elements: expected 1 or more");
  EXPECT_EQ(made({.dimension = 2, .deviation = -1}),
            "ps::Embedding: rows that deviate by -1: expected 0 or more");
  EXPECT_EQ(made({.dimension = 2, .rule = torch::optim::AdamOptions(0.1).amsgrad(true)}),
            "ps::Embedding: servers have no AMSGrad: expected amsgrad(false)");
  EXPECT_TRUE(contains(error_of([&] { ps::Embedding(ps::EmbeddingOptions{.dimension = 2}); }),
                       "ps::Embedding: no parameter servers: expected `sullae run --ps N`"));
  ps::Embedding table(ps::EmbeddingOptions{.dimension = 2}, a_worker(servers, 0));
  EXPECT_EQ(error_of([&] {
              table(torch::tensor({3, -1}));
            }),
            "ps::Embedding: a row with a number below 0: expected 0 or more");
  EXPECT_EQ(error_of([&] { table(torch::ones({2})); }),
            "ps::Embedding: numbers of rows that are Float on cpu: expected int64 on the CPU");
  EXPECT_TRUE(contains(error_of([&] { table->scatter({.ids = torch::arange(2)}); }),
                       "ps::Embedding: rows that are none of 'embedding': expected what gather()"));
}

}  // namespace
}  // namespace sullae::testing
