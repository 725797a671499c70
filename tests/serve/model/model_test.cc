// Models in memory answer as they did when they were trained.
#include "serve/model/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstring>

#include "base/request_error.h"
#include "serve/models.h"
#include "sullae/data/example.h"
#include "sullae/torch/checkpoint.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "torch/compat/package_loader.h"
#include "train/export.h"
#include "train/task.h"

namespace sullae::testing {
namespace {

using namespace serve;

std::vector<float> floats_of(const InferTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

train::ModelDescription text_description(const std::string& recipe) {
  return {.recipe = recipe,
          .input = train::InputKind::text,
          .numbers = {{"max-words", 8},
                      {"normalise", 0},
                      {"word-pairs", recipe == "text" ? 20 : 0},
                      {"words", recipe == "text" ? 26 : 6},
                      {"classes", 3},
                      {"embedding-size", 8},
                      {"hidden-size", 6},
                      {"layers", 2},
                      {"dropout", 0.3}},
          .classes = {"bad", "fair", "good"},
          .words = {"a", "b", "c", "영화"}};
}

class ModelTest : public ::testing::Test {
 protected:
  // A version that holds a network with random weights.
  std::filesystem::path put_checkpoint(const train::ModelDescription& description,
                                       double scale = 3) {
    torch::manual_seed(5);
    const auto network = train::find_recipe(description.recipe).model(description);
    {
      const torch::NoGradGuard guard;
      for (auto& parameter : network->parameters()) parameter.mul_(scale);
    }
    CheckpointMetadata metadata;
    train::add_description(metadata, description);
    return train::export_version(directory_.path(), description.recipe,
                                 [&](const std::filesystem::path& file) {
                                   save_checkpoint(file, *network, nullptr, {.metadata = metadata});
                                 });
  }
  static InferRequest texts(const std::vector<std::string>& texts) {
    return {.inputs = {{.name = "text",
                        .datatype = Datatype::bytes,
                        .shape = {static_cast<std::int64_t>(texts.size())},
                        .strings = texts}}};
  }
  TemporaryDirectory directory_;
};

TEST_F(ModelTest, TextsOfABatchAreAnsweredAsAlone) {
  const std::vector<std::string> lines = {"a b c", "영화", "", "c c c c c c c c c c", "b x a"};
  for (const char* recipe : {"lstm", "text"}) {
    const auto version = put_checkpoint(text_description(recipe));
    const Model model(version, {});
    EXPECT_EQ(model.platform(), "sullae_checkpoint");
    const auto together = model.answer(texts(lines));
    ASSERT_EQ(together.size(), 3U);
    EXPECT_EQ(together[0].name, "label");
    EXPECT_EQ(together[2].shape, (std::vector<std::int64_t>{5, 3}));
    const auto probabilities = floats_of(together[2]);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto alone = model.answer(texts({lines[i]}));
      EXPECT_EQ(alone[0].strings[0], together[0].strings[i]) << lines[i];
      const auto own = floats_of(alone[2]);
      float sum = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(own[c], probabilities[3 * i + c], 1e-5);
        sum += own[c];
      }
      EXPECT_NEAR(sum, 1, 1e-5);
      const auto best = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
      EXPECT_EQ(alone[0].strings[0], text_description(recipe).classes[best]);
    }
  }
}

TEST_F(ModelTest, WhoseWeightsHaveDivergedIsRefused) {
  for (const double scale : {std::nan(""), HUGE_VAL}) {
    const Model model(put_checkpoint(text_description("lstm"), scale), {});
    EXPECT_EQ(error_of([&] { model.warm_up(); }),
              "the answer to an ordinary request is no number: its weights have diverged");
  }
  EXPECT_EQ(error_of([&] { Model(put_checkpoint(text_description("lstm")), {}).warm_up(); }),
            "nothing was thrown");
}

TEST_F(ModelTest, AGpuAnswersAsTheProcessorDoes) {
  if (!torch::cuda::is_available())
    GTEST_SKIP() << "NO GPU, OR A LIBTORCH WITHOUT CUDA: serving on a GPU is not tested";
  ModelConfig config;
  config.device = "cuda";
  for (const char* recipe : {"lstm", "text"}) {
    const auto version = put_checkpoint(text_description(recipe));
    const auto request = texts({"a b c 영화", "", "b b"});
    const auto expected = floats_of(Model(version, {}).answer(request)[2]);
    const auto found = floats_of(Model(version, config).answer(request)[2]);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(expected[i], found[i], 1e-3);
  }
}

// Needs no GPU: what every machine must say.
TEST_F(ModelTest, ADeviceThatIsNotThereIsRefused) {
  const auto version = put_checkpoint(text_description("text"));
  ModelConfig config;
  config.device = "cuda:99";
  EXPECT_TRUE(contains(error_of([&] { Model(version, config); }),
                       torch::cuda::is_available()
                           ? "device = 'cuda:99': this machine's GPUs are 0 to "
                           : "device = 'cuda:99': there is no GPU, or a libtorch without CUDA"));
}

TEST_F(ModelTest, ImagesComeAsFilesOrAsPixels) {
  const auto version = put_checkpoint(
      {.recipe = "mnist",
       .input = train::InputKind::image,
       .numbers = {{"channels", 1}, {"image-size", 28}, {"centre-share", 1}, {"classes", 10}},
       .mean = {0.1307},
       .deviation = {0.3081}});
  const Model model(version, {});
  const auto answer = model.answer(model.codec().example(3));
  EXPECT_EQ(answer[0].strings.size(), 3U);
  EXPECT_TRUE(contains(error_of([&] {
                         model.answer({.inputs = {{.name = "image",
                                                   .datatype = Datatype::bytes,
                                                   .shape = {1},
                                                   .strings = {"no JPEG"}}}});
                       }),
                       "input 'image', image 0: "));
  EXPECT_TRUE(contains(error_of([&] {
                         model.answer({.inputs = {{.name = "image",
                                                   .shape = {1, 3, 28, 28},
                                                   .data = std::string(9408, '\0')}}});
                       }),
                       "shape [1, 3, 28, 28], expected [batch, 1, 28, 28]"));
  EXPECT_TRUE(
      contains(error_of([&] { model.answer({}); }), "expected one input, 'image', got none"));
}

TEST_F(ModelTest, NormsAreFoldedWithoutAnotherResult) {
  const auto version = put_checkpoint({.recipe = "resnet18",
                                       .input = train::InputKind::image,
                                       .numbers = {{"channels", 3},
                                                   {"image-size", 32},
                                                   {"centre-share", 1},
                                                   {"classes", 4},
                                                   {"small-images", 1},
                                                   {"zero-init-residual", 1}},
                                       .mean = {0.5, 0.5, 0.5},
                                       .deviation = {0.25, 0.25, 0.25}});
  const Model model(version, {});
  auto network = train::find_recipe("resnet18")
                     .model(train::description_of(read_checkpoint_metadata(version / "model.ckpt"),
                                                  "model.ckpt"));
  load_checkpoint(version / "model.ckpt", *network);
  network->eval();
  const auto pixels = torch::rand({2, 3, 32, 32});
  const auto expected =
      torch::softmax(dynamic_cast<train::Classifier&>(*network).scores({{pixels}, {}}), 1);
  const auto answer = model.answer(
      {.inputs = {{.name = "image",
                   .shape = {2, 3, 32, 32},
                   .data = {static_cast<const char*>(pixels.data_ptr()), pixels.nbytes()}}}});
  const auto found = floats_of(answer[2]);
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(found[static_cast<std::size_t>(i)], expected.view(-1)[i].item<float>(), 1e-4);
}

TEST_F(ModelTest, ATorchScriptFileIsServedWithoutAConfiguration) {
  put_script(directory_.path() / "m", 1,
             "def forward(self, left, right):\n    return left + right\n");
  const Model model(directory_.path() / "m" / "1", {});
  EXPECT_EQ(model.platform(), "pytorch_torchscript");
  EXPECT_EQ(model.max_batch_size(), 1) << "nothing says what its first dimension is";
  ASSERT_EQ(model.codec().inputs().size(), 2U);
  EXPECT_EQ(model.codec().inputs()[1].name, "right");
  const float ones[2] = {1, 1};
  const std::string data(reinterpret_cast<const char*>(ones), sizeof ones);
  const auto answer = model.answer({.inputs = {{.name = "left", .shape = {2}, .data = data},
                                               {.name = "right", .shape = {2}, .data = data}}});
  EXPECT_EQ(floats_of(answer[0]), (std::vector<float>{2, 2}));
  EXPECT_TRUE(contains(
      error_of([&] { model.answer({.inputs = {{.name = "left", .shape = {2}, .data = data}}}); }),
      "input 'right' is missing: expected 'left', 'right'"));
  EXPECT_TRUE(contains(
      error_of([&] { model.answer({.inputs = {{.name = "middle", .shape = {2}, .data = data}}}); }),
      "there is no input 'middle'"));
}

TEST_F(ModelTest, AnswersAsManyRowsAsThereWere) {
  put_script(directory_.path() / "m", 1, "def forward(self, x):\n    return x[x[:, 0] > 0]\n");
  put_text(directory_.path() / "m" / "config.toml",
           "[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 1]\n"
           "[[outputs]]\nname = \"y\"\ndatatype = \"FP32\"\nshape = [-1, 1]\n");
  const Model model(directory_.path() / "m" / "1",
                    read_model_config(directory_.path() / "m" / "config.toml"));
  const float some[2] = {1, -1};
  const std::string data(reinterpret_cast<const char*>(some), sizeof some);
  EXPECT_TRUE(contains(error_of([&] {
                         model.answer({.inputs = {{.name = "x", .shape = {2, 1}, .data = data}}});
                       }),
                       "the model returned 1 rows for a batch of 2 rows"));
}

// Another number would be what the model computes with.
TEST_F(ModelTest, NumbersOfDataThatAnInputCannotHoldAreDamage) {
  put_script(directory_.path() / "m", 1, "def forward(self, x):\n    return x\n");
  const auto decode = [&](const char* type, data::Feature values) {
    put_text(directory_.path() / "m" / "config.toml",
             fmt::format("[[inputs]]\nname = \"x\"\ndatatype = \"{0}\"\nshape = [-1, -1]\n"
                         "[[outputs]]\nname = \"y\"\ndatatype = \"{0}\"\nshape = [-1, -1]\n",
                         type));
    const Model model(directory_.path() / "m" / "1",
                      read_model_config(directory_.path() / "m" / "config.toml"));
    data::Example example;
    example.features.insert_or_assign("x", std::move(values));
    return model.codec().decode(example).tensors.at(0);
  };
  using Integers = data::Values<std::int64_t>;
  using Reals = data::Values<float>;
  const auto big = std::int64_t{1} << 40;
  const std::vector<std::pair<const char*, data::Feature>> wrong = {
      {"UINT8", Integers{300}}, {"UINT8", Integers{-1}},         {"INT32", Integers{1, big}},
      {"INT64", Reals{1.7F}},   {"INT64", Reals{std::nanf("")}}, {"INT64", Reals{1e30F}},
      {"FP16", Reals{1e30F}},   {"FP16", Integers{big}},         {"BOOL", Reals{1.7F}},
      {"BOOL", Integers{300}}};
  for (const auto& [type, values] : wrong)
    EXPECT_TRUE(contains(error_of([&] { decode(type, values); }), std::string(" is no ") + type))
        << type;
  EXPECT_TRUE(contains(error_of([&] {
                         decode("INT32", Integers{1, big});
                       }),
                       "feature 'x': 1099511627776 is no INT32"));
  EXPECT_EQ(decode("UINT8", Integers{255})[0][0].item<int>(), 255);
  EXPECT_EQ(decode("INT64", Reals{-3})[0][0].item<int>(), -3);
  EXPECT_EQ(decode("BOOL", Integers{1})[0][0].item<bool>(), true);
  EXPECT_TRUE(std::isinf(decode("FP16", Reals{INFINITY})[0][0].item<float>()));
}

TEST_F(ModelTest, TorchScriptCanHavePreprocessingOfTexts) {
  const auto model_directory = directory_.path() / "m";
  put_script(model_directory, 1,
             "def forward(self, words, lengths):\n"
             "    return torch.stack([lengths, torch.sum(words, 1)], 1) * 1.0\n");
  put_text(model_directory / "words.txt", "a\nb\n영화\n");
  put_text(model_directory / "config.toml",
           "preprocessing = \"text\"\nvocabulary = \"words.txt\"\nmax_words = 3\n");
  const Model model(model_directory / "1", read_model_config(model_directory / "config.toml"));
  // Numbers from 2 on: "a b 영화 b" is 2, 3, 4 and one word too many.
  const auto answer = model.answer(texts({"a b 영화 b", "b"}));
  EXPECT_EQ(answer[0].strings, (std::vector<std::string>{"1", "1"}));
  const auto scores = floats_of(answer[1]);
  EXPECT_NEAR(scores[0], 1 / (1 + std::exp(3.0 - 9.0)), 1e-5);
  EXPECT_NEAR(scores[1], 1 / (1 + std::exp(1.0 - 3.0)), 1e-5);
}

// Of one that can be loaded Python's tests tell.
TEST_F(ModelTest, APackageThatCannotBeLoadedSaysSo) {
  const auto folder = directory_.path() / "m";
  put_text(folder / "1" / "model.pt2", "no package");
  EXPECT_TRUE(contains(error_of([&] { Model(folder / "1", {}); }),
                       "model.pt2: what a package takes and gives it does not say itself: "
                       "expected [[inputs]] and [[outputs]] in config.toml"));
  put_text(folder / "config.toml",
           "[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1]\n"
           "[[outputs]]\nname = \"y\"\ndatatype = \"FP32\"\nshape = [-1]\n");
  const auto error =
      error_of([&] { Model(folder / "1", read_model_config(folder / "config.toml")); });
#if SULLAE_HAS_PACKAGES
  EXPECT_TRUE(contains(error, "model.pt2: is no package of AOTInductor that libtorch ")) << error;
#else
  EXPECT_TRUE(contains(error,
                       "model.pt2: packages of AOTInductor need libtorch 2.8 or later, and "
                       "this build has " TORCH_VERSION))
      << error;
#endif
}

TEST_F(ModelTest, ADictionarysValuesGoByTheirNames) {
  const auto model = [&](int version, const char* source) {
    put_script(directory_.path() / "m", version, source);
    put_text(directory_.path() / "m" / "config.toml",
             "[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1]\n"
             "[[outputs]]\nname = \"a\"\ndatatype = \"FP32\"\nshape = [-1]\n"
             "[[outputs]]\nname = \"z\"\ndatatype = \"FP32\"\nshape = [-1]\n");
    return Model(directory_.path() / "m" / std::to_string(version),
                 read_model_config(directory_.path() / "m" / "config.toml"));
  };
  const float seven = 7;
  const InferRequest request{
      .inputs = {{.name = "x",
                  .shape = {1},
                  .data = {reinterpret_cast<const char*>(&seven), sizeof seven}}}};
  const auto answer =
      model(1, "def forward(self, x):\n    return {'z': x, 'more': x, 'a': -x}\n").answer(request);
  ASSERT_EQ(answer.size(), 2U);
  EXPECT_EQ(answer[0].name, "a");
  EXPECT_EQ(floats_of(answer[0]), std::vector<float>{-7});
  EXPECT_EQ(floats_of(answer[1]), std::vector<float>{7});
  EXPECT_TRUE(contains(
      error_of([&] { model(2, "def forward(self, x):\n    return {'z': x}\n").answer(request); }),
      "the model returned no 'a', which config.toml says it does"));
  auto twice = request;
  twice.inputs.push_back(twice.inputs[0]);
  EXPECT_EQ(error_of([&] { model(3, "def forward(self, x):\n    return x\n").answer(twice); }),
            "input 'x' is there twice");
}

TEST_F(ModelTest, ClassesAndSettingsThatDoNotFitAreRefused) {
  const auto folder = directory_.path() / "m";
  put_text_model(folder);
  const auto error = [&] {
    return error_of([&] {
      Model(folder / "1", read_model_config(folder / "config.toml")).answer(texts({"a b"}));
    });
  };
  put_text(folder / "classes.txt", "bad\nfair\ngood\n");
  EXPECT_EQ(error(), "the model returned scores of 2 classes, and there are names for 3");
  put_text(folder / "classes.txt", "\xef\xbb\xbfgood\r\nbad\r\ngood\r\n");
  EXPECT_EQ(error(),
            "classes.txt: line 3: 'good' is the name of line 1, too: expected one for each class");
  put_text(folder / "config.toml", std::string("preprocessing = \"text\"\nvocabulary = "
                                               "\"words.txt\"\n") +
                                       kConstantConfig);
  EXPECT_TRUE(contains(error(), "preprocessing says what goes in and out: expected no [[inputs]]"));
  put_text(folder / "config.toml", "classes = \"classes.txt\"\n");
  EXPECT_TRUE(contains(error(), "classes and vocabulary need preprocessing"));
}

TEST_F(ModelTest, WrongShapesAndTypesAreNamed) {
  put_text(directory_.path() / "m" / "config.toml", kConstantConfig);
  put_constant(directory_.path() / "m", 1, 1);
  const Model model(directory_.path() / "m" / "1",
                    read_model_config(directory_.path() / "m" / "config.toml"));
  const auto error = [&](InferTensor input) {
    return error_of([&] { model.answer({.inputs = {std::move(input)}}); });
  };
  EXPECT_TRUE(contains(error({.name = "x", .datatype = Datatype::int64, .shape = {1, 2}}),
                       "input 'x': expected FP32, got INT64"));
  EXPECT_TRUE(
      contains(error({.name = "x", .shape = {1, 3}}), "input 'x': shape [1, 3], expected [-1, 2]"));
}

TEST(ModelConfig, SaysWhatIsWrongAndWhere) {
  TemporaryDirectory directory;
  const auto file = directory.path() / "config.toml";
  const std::pair<const char*, const char*> cases[] = {
      {"\nmax_batch_size = -1\n", "line 2: max_batch_size: expected a whole number from 0"},
      {"device = \"gpu\"", "'gpu': expected cpu, cuda or cuda:N"},
      {"device = \"cuda:08\"", "'cuda:08': expected cpu, cuda or cuda:N"},
      {"device = \"cuda:100\"", "'cuda:100': expected cpu, cuda or cuda:N"},
      {"device = \"cuda:\"", "'cuda:': expected cpu, cuda or cuda:N"},
      {"version_policy = \"newest\"", "'newest': expected latest, latest:N, all, or versions"},
      {"version_policy = \"1,x\"", "expected latest, latest:N, all, or versions"},
      {"preprocessing = 3", "expected a text in quotes"},
      {"[[inputs]]\nname = \"x\"", "expected a table with name, datatype and shape"},
      {"[[inputs]]\nname = \"x\"\ndatatype = \"F\"\nshape = [1]", "datatype 'F' is not known"},
      {"[[golden]]\ninstance = 3", "expected a table with instance and expect"},
      {"mean = [0, 1]", "mean: expected a list of three numbers, for red, green and blue"},
      {"deviation = [0]", "deviation: expected a number above 0"},
      {"centre_share = 2", "centre_share: expected a number above 0, 1 at most"},
      {"channels = 2", "channels: expected 1 (grey) or 3"},
      {"max_queue_delay_microseconds = 1000\ntimeout_milliseconds = 1",
       "line 1: a request waits for others for 1000 us, and 1 ms at most for its answer"},
      {"a = [", "line 1"},
      {"normalise = 1", "expected true or false"}};
  for (const auto& [text, message] : cases) {
    put_text(file, text);
    const auto error = error_of([&] { read_model_config(file); });
    EXPECT_TRUE(contains(error, message) && contains(error, file.string())) << text << "\n"
                                                                            << error;
  }
}

}  // namespace
}  // namespace sullae::testing
