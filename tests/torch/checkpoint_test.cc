#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

torch::nn::Sequential make_model(int hidden = 8) {
  return torch::nn::Sequential(torch::nn::Linear(4, hidden), torch::nn::BatchNorm1d(hidden),
                               torch::nn::Linear(hidden, 2));
}

class Checkpoint : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "model.ckpt";
};

TEST_F(Checkpoint, RestoresModelOptimizerAndMetadata) {
  auto model = make_model();
  Adam adam(model->parameters(), torch::optim::AdamOptions(0.01));
  for (int i = 0; i < 3; ++i) {
    model->forward(torch::randn({5, 4})).sum().backward();
    adam.step();
  }
  save_checkpoint(file_, *model, &adam,
                  {{.numbers = {{"epoch", 3}, {"loss", 0.25}},
                    .texts = {{"a text, not a name", "한글"}},
                    .tensors = {{"random", torch::arange(5)}}}});

  auto restored = make_model();
  Adam restored_adam(restored->parameters(), torch::optim::AdamOptions(0.5));
  const auto metadata = load_checkpoint(file_, *restored, &restored_adam);
  EXPECT_EQ(metadata.numbers, (std::map<std::string, double>{{"epoch", 3}, {"loss", 0.25}}));
  EXPECT_EQ(metadata.texts.at("a text, not a name"), "한글");
  EXPECT_TRUE(torch::equal(metadata.tensors.at("random"), torch::arange(5)));
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(model->parameters()[i], restored->parameters()[i]));
  }
  EXPECT_EQ(restored_adam.state().size(), adam.state().size());
  for (auto* pair : {&model, &restored}) {
    for (auto& parameter : (*pair)->parameters())
      parameter.mutable_grad() = torch::ones_like(parameter);
  }
  adam.step();
  restored_adam.step();
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(model->parameters()[i], restored->parameters()[i]));
  }
}

// Users need nothing of ours to read the weights.
TEST_F(Checkpoint, StockLibtorchLoadsTheWeights) {
  auto model = make_model();
  Adam adam(model->parameters());
  save_checkpoint(file_, *model, &adam, {{.numbers = {{"epoch", 3}}}});
  auto restored = make_model();
  torch::load(restored, file_.string());
  for (std::size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_TRUE(torch::equal(model->parameters()[i], restored->parameters()[i]));
}

TEST_F(Checkpoint, InMemoryIsTheSameAsOnDisk) {
  auto model = make_model();
  const auto checkpoint = serialize_checkpoint(*model, nullptr, {{.numbers = {{"epoch", 3}}}});
  const auto before = model->parameters()[0].detach().clone();
  {
    const torch::NoGradGuard guard;
    model->parameters()[0].add_(1);  // training goes on
  }
  write_checkpoint(file_, checkpoint);
  auto restored = make_model();
  EXPECT_EQ(load_checkpoint(file_, *restored).numbers.at("epoch"), 3);
  EXPECT_TRUE(torch::equal(before, restored->parameters()[0]));
}

TEST_F(Checkpoint, OtherWeightsTakeTheModelsPlace) {
  auto model = make_model();
  save_checkpoint(file_, *model, nullptr, {.weights = {{"0.weight", torch::full({8, 4}, 7.0)}}});
  auto restored = make_model();
  load_checkpoint(file_, *restored);
  EXPECT_TRUE(torch::equal(restored->parameters()[0], torch::full({8, 4}, 7.0)));
  EXPECT_TRUE(torch::equal(restored->parameters()[1], model->parameters()[1]));
}

TEST_F(Checkpoint, OfAnotherTypeIsConverted) {
  torch::nn::Linear saved(30, 20);
  saved->to(torch::kBFloat16);
  save_checkpoint(file_, *saved);
  torch::nn::Linear loaded(30, 20);
  load_checkpoint(file_, *loaded);
  EXPECT_EQ(loaded->weight.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(loaded->weight, saved->weight.to(torch::kFloat32)));
  EXPECT_TRUE(loaded->weight.requires_grad());
}

TEST_F(Checkpoint, TensorsWithoutElementsAreKept) {
  torch::nn::Module saved;
  saved.register_buffer("nothing", torch::zeros({0, 3}));
  saved.register_buffer("something", torch::ones({2}));
  save_checkpoint(file_, saved);
  torch::nn::Module loaded;
  loaded.register_buffer("nothing", torch::zeros({0, 3}));
  loaded.register_buffer("something", torch::zeros({2}));
  load_checkpoint(file_, loaded);
  EXPECT_EQ(loaded.named_buffers()["something"].sum().item<double>(), 2);
}

TEST_F(Checkpoint, TornAtAnyLengthIsRefusedAndNothingIsLoaded) {
  save_checkpoint(file_, *make_model());
  const auto size = std::filesystem::file_size(file_);
  for (const auto length : {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{31},
                            std::uintmax_t{32}, size / 2, size - 1}) {
    const auto torn = directory_.path() / "torn.ckpt";
    std::filesystem::copy_file(file_, torn, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(torn, length);
    auto model = make_model();
    const auto before = model->parameters()[0].detach().clone();
    const auto error = error_of([&] { load_checkpoint(torn, *model); });
    EXPECT_TRUE(error.find("is torn") != std::string::npos ||
                error.find("is not a Sullae checkpoint") != std::string::npos)
        << error;
    EXPECT_NE(error.find("torn.ckpt"), std::string::npos);
    EXPECT_TRUE(torch::equal(before, model->parameters()[0]));
  }
}

TEST_F(Checkpoint, DamageIsFound) {
  save_checkpoint(file_, *make_model());
  std::fstream stream(file_, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(200);
  stream.put('\x55');
  stream.close();
  auto model = make_model();
  EXPECT_NE(error_of([&] {
              load_checkpoint(file_, *model);
            }).find("is damaged: its checksum does not fit"),
            std::string::npos);
}

TEST_F(Checkpoint, OfAnotherModelIsRefused) {
  save_checkpoint(file_, *make_model(8));
  auto wider = make_model(9);
  EXPECT_NE(error_of([&] {
              load_checkpoint(file_, *wider);
            }).find("'0.weight' has shape 8x4, but the model's has 9x4"),
            std::string::npos);
  torch::nn::Sequential longer(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Linear(8, 2), torch::nn::Linear(2, 2));
  EXPECT_NE(error_of([&] { load_checkpoint(file_, *longer); }).find("has no '3.weight'"),
            std::string::npos);
  Adam adam(wider->parameters());
  auto same = make_model(8);
  EXPECT_NE(error_of([&] { load_checkpoint(file_, *same, &adam); }).find("has no optimizer state"),
            std::string::npos);
}

TEST_F(Checkpoint, MissingIsNamed) {
  auto model = make_model();
  EXPECT_NE(error_of([&] {
              load_checkpoint(file_, *model);
            }).find("model.ckpt: cannot be opened: No such file"),
            std::string::npos);
}

// A limit on the size of files makes a write fail in the middle, as a full disk does.
TEST_F(Checkpoint, AWriteThatFailsInTheMiddleLeavesTheOldOneIntact) {
  auto model = make_model(2000);
  save_checkpoint(file_, *model, nullptr, {{.numbers = {{"epoch", 1}}}});
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit limit = old_limit;
  limit.rlim_cur = 20000;
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto error = error_of([&] {
    save_checkpoint(file_, *model, nullptr, {{.numbers = {{"epoch", 2}}}});
  });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(error.find("model.ckpt cannot be written: File too large"), std::string::npos) << error;
  EXPECT_EQ(load_checkpoint(file_, *model).numbers.at("epoch"), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_.path()), {}), 1)
      << "nothing half-written is left";
}

TEST_F(Checkpoint, IntoAMissingDirectoryIsRefused) {
  const auto error =
      error_of([&] { save_checkpoint(directory_.path() / "no" / "model.ckpt", *make_model()); });
  EXPECT_NE(error.find("cannot be written: No such file or directory"), std::string::npos) << error;
}

TEST_F(Checkpoint, OfAnotherOptimizerIsRefusedAndNothingIsLoaded) {
  auto model = make_model();
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  model->forward(torch::randn({5, 4})).sum().backward();
  sgd.step();
  save_checkpoint(file_, *model, &sgd);
  auto other = make_model();
  const auto before = other->parameters()[0].detach().clone();
  Adam adam(other->parameters(), torch::optim::AdamOptions(0.01));
  auto error = error_of([&] { load_checkpoint(file_, *other, &adam); });
  EXPECT_TRUE(contains(error, file_.string())) << error;
  EXPECT_TRUE(contains(error, "is of another kind of optimizer")) << error;
  torch::optim::SGD two_groups(
      std::vector<torch::optim::OptimizerParamGroup>{
          torch::optim::OptimizerParamGroup({other->parameters()[0]}),
          torch::optim::OptimizerParamGroup({other->parameters()[1]})},
      torch::optim::SGDOptions(0.1));
  error = error_of([&] { load_checkpoint(file_, *other, &two_groups); });
  EXPECT_TRUE(contains(error, "has 1 groups of parameters, this one has 2")) << error;
  torch::optim::SGD fewer({other->parameters()[0]}, torch::optim::SGDOptions(0.1));
  error = error_of([&] { load_checkpoint(file_, *other, &fewer); });
  EXPECT_TRUE(contains(error, "the optimizer's state does not fit")) << error;
  EXPECT_TRUE(torch::equal(other->parameters()[0], before));
  EXPECT_TRUE(adam.state().empty());
}

}  // namespace
}  // namespace sullae::testing
