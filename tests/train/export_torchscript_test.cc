// From a model of one's own to an entry of a repository.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "base/file.h"
#include "sullae/train.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl() {
    body = register_module("body", torch::nn::Sequential(torch::nn::Linear(4, 8)));
    head = register_module("head", torch::nn::Linear(8, 3));
    scale = register_buffer("scale", torch::full({1}, 2.0F));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::softmax(head(torch::relu(body->forward(x)) * scale), 1);
  }
  torch::nn::Sequential body{nullptr};
  torch::nn::Linear head{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(TwoLayers);

constexpr const char* kSource = R"(
def forward(self, x):
    return torch.softmax(torch.linear(self.hidden(x), self.head_weight, self.head_bias), 1)
def hidden(self, x):
    return torch.relu(torch.linear(x, self.body_0_weight, self.body_0_bias)) * self.scale
)";

class ExportTorchScript : public ::testing::Test {
 protected:
  TorchScriptExport options() const {
    return {.repository = directory_.path() / "models",
            .name = "mine",
            .inputs = {{"x", torch::kFloat32, {-1, 4}}},
            .outputs = {{"y", torch::kFloat32, {-1, 3}}}};
  }
  std::string refusal(const std::string& source, const TorchScriptExport& wrong) {
    const auto message = error_of([&] { export_torchscript(*model_, source, wrong); });
    EXPECT_FALSE(std::filesystem::exists(directory_.path() / "models" / "mine"));
    return message;
  }

  TemporaryDirectory directory_;
  TwoLayers model_;
};

TEST_F(ExportTorchScript, GivesWhatTheModelGives) {
  const auto folder = export_torchscript(*model_, kSource, options());
  EXPECT_EQ(folder, directory_.path() / "models" / "mine" / "1");
  auto script = torch::jit::load((folder / "model.pt").string());
  const auto x = torch::rand({5, 4});
  EXPECT_TRUE(torch::allclose(script.forward({x}).toTensor(), model_(x)));
  const std::string text = content_of(folder.parent_path() / "config.toml");
  EXPECT_TRUE(contains(text, "[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 4]"));
  EXPECT_TRUE(contains(text, "[[outputs]]\nname = \"y\"\ndatatype = \"FP32\"\nshape = [-1, 3]"));
  EXPECT_EQ(export_torchscript(*model_, kSource, options()).filename(), "2");
}

TEST_F(ExportTorchScript, WritesWhatThePreprocessingNeeds) {
  torch::jit::Module script("model");
  script.define("def forward(self, words, lengths):\n    return torch.ones(words.size(0), 2)\n");
  TorchScriptExport texts{.repository = directory_.path(),
                          .name = "texts",
                          .preprocessing = ServedTexts{{"a", "b"}, 7, true},
                          .classes = {"no", "yes"}};
  const auto folder = export_torchscript(script, texts);
  EXPECT_EQ(content_of(folder / "vocabulary.txt"), "a\nb\n");
  EXPECT_EQ(content_of(folder / "classes.txt"), "no\nyes\n");
  EXPECT_TRUE(contains(content_of(folder.parent_path() / "config.toml"),
                       "classes = \"classes.txt\"\npreprocessing = \"text\"\nvocabulary = "
                       "\"vocabulary.txt\"\nmax_words = 7\nnormalise = true\n"));

  script = torch::jit::Module("model");
  script.define("def forward(self, pixels):\n    return pixels[:, 0, 0, :2]\n");
  const TorchScriptExport images{.repository = directory_.path(),
                                 .name = "images",
                                 .preprocessing = ServedImages{.size = 28, .channels = 1}};
  EXPECT_TRUE(
      contains(content_of(export_torchscript(script, images).parent_path() / "config.toml"),
               "preprocessing = \"image\"\nimage_size = 28\nchannels = 1\ncentre_share = 0.875\n"
               "mean = [0.485, 0.456, 0.406]\ndeviation = [0.229, 0.224, 0.225]\n"));

  const auto refusal = [&](const TorchScriptExport& wrong) {
    return error_of([&] { export_torchscript(script, wrong); });
  };
  auto wrong = images;
  wrong.preprocessing = ServedImages{.channels = 2};
  EXPECT_TRUE(contains(refusal(wrong), "images: 2 channels, expected 1 or 3"));
  wrong.preprocessing = ServedImages{.size = 0};
  EXPECT_TRUE(contains(refusal(wrong), "images: size 0, expected 1 to 16384"));
  wrong.preprocessing = ServedImages{.centre_share = 0};
  EXPECT_TRUE(contains(refusal(wrong), "centre_share 0, expected above 0"));
  wrong.preprocessing = ServedImages{.mean = {}};
  EXPECT_TRUE(contains(refusal(wrong), "0 numbers for mean or deviation"));
  wrong.preprocessing = ServedImages{.deviation = {0}};
  EXPECT_TRUE(contains(refusal(wrong), "deviation: expected numbers above 0"));
  wrong = images;
  wrong.classes = {"x", "y", "z"};
  EXPECT_TRUE(contains(refusal(wrong), "output 'scores': forward returns Float [1, 2]"));
  wrong.classes = {"x", "x"};
  EXPECT_TRUE(contains(refusal(wrong), "classes: 'x' is there twice"));
  wrong = images;
  wrong.max_batch_size = 0;
  EXPECT_TRUE(contains(refusal(wrong), "preprocessing makes batches, expected 1 or more"));
  wrong = images;
  wrong.inputs = {{"x", torch::kFloat32, {-1}}};
  EXPECT_TRUE(contains(refusal(wrong), "preprocessing knows them, expected none"));
  wrong = texts;
  wrong.preprocessing = ServedTexts{{"a\nb"}};
  EXPECT_TRUE(contains(refusal(wrong), "vocabulary: 'a\nb' has a line break"));
  wrong.preprocessing = ServedTexts{{"a"}, 0};
  EXPECT_TRUE(contains(refusal(wrong), "max_words 0, expected 1 to"));
  wrong = options();
  wrong.classes = {"x"};
  EXPECT_TRUE(contains(refusal(wrong), "classes: they are answered with preprocessing alone"));
  EXPECT_TRUE(
      contains(error_of([&] { export_torchscript(torch::jit::Module("empty"), options()); }),
               "the module has no method forward"));
}

TEST_F(ExportTorchScript, VersionsOfAModelTakeAndGiveTheSame) {
  torch::jit::Module script("model");
  script.define("def forward(self, pixels):\n    return pixels[:, 0, 0, :2]\n");
  TorchScriptExport images{.repository = directory_.path(),
                           .name = "images",
                           .preprocessing = ServedImages{.size = 28, .channels = 1}};
  export_torchscript(script, images);
  images.max_batch_size = 3;  // an operator's affair
  EXPECT_EQ(export_torchscript(script, images).filename(), "2");
  images.preprocessing = ServedImages{.size = 32, .channels = 1};
  EXPECT_TRUE(contains(error_of([&] { export_torchscript(script, images); }),
                       "images/config.toml: image_size is 28 there, by which all versions of the "
                       "model are served, and 32 for this one"));
  images.preprocessing = {};
  images.inputs = {{"pixels", torch::kFloat32, {-1, 1, 28, 28}}};
  images.outputs = {{"scores", torch::kFloat32, {-1, 2}}};
  EXPECT_TRUE(contains(error_of([&] { export_torchscript(script, images); }),
                       "preprocessing is 'image' there"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "images" / "3"));
}

TEST_F(ExportTorchScript, ArgumentsWithDefaultsMayBeLeftOut) {
  torch::jit::Module script("model");
  script.define("def forward(self, x, scale: float = 2.0):\n    return scale * x\n");
  auto other = options();
  other.outputs[0].shape = other.inputs[0].shape;
  EXPECT_EQ(export_torchscript(script, other).filename(), "1");
}

TEST_F(ExportTorchScript, APackageIsCopiedAsItIs) {
  const auto package = directory_.path() / "compiled";
  EXPECT_EQ(error_of([&] { export_package(package, options()); }),
            package.string() + ": is no file, expected a package");
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "models"));
  write_file(package, std::string("PK\0\x03", 4));
  const auto folder = export_package(package, options());
  EXPECT_EQ(folder, directory_.path() / "models" / "mine" / "1");
  EXPECT_EQ(content_of(folder / "model.pt2"), content_of(package));
  EXPECT_TRUE(contains(content_of(folder.parent_path() / "config.toml"), "[[inputs]]"));
  // And versions of a model take and give the same, whatever they are.
  EXPECT_EQ(export_torchscript(*model_, kSource, options()).filename(), "2");
  auto other = options();
  other.outputs[0].shape = {-1, 4};
  EXPECT_TRUE(contains(error_of([&] { export_package(package, other); }), "config.toml"));
}

TEST_F(ExportTorchScript, SaysWhatCannotBeServed) {
  EXPECT_TRUE(
      contains(refusal("def forward(self, x):\n    return self.nobody\n", options()), "nobody"));
  EXPECT_TRUE(contains(refusal("def forward(self, x:\n", options()), "the source: "));
  EXPECT_TRUE(contains(refusal("def other(self, x):\n    return x\n", options()), "forward"));
  // The batch baked in.
  EXPECT_TRUE(contains(refusal("def forward(self, x):\n    return torch.linear(x, "
                               "self.body_0_weight)[:, :3].reshape(1, 3)\n",
                               options()),
                       "forward fails for 3 rows"));
  EXPECT_TRUE(contains(refusal("def forward(self, x):\n    return x.sum(0)\n", options()),
                       "output 'y': forward returns Float [4] for 1 row, expected Float [-1, 3]"));
  EXPECT_TRUE(contains(refusal("def forward(self, x):\n    return x, x\n", options()),
                       "forward returns 2 tensors, but there are 1 outputs"));
  EXPECT_TRUE(contains(refusal("def forward(self, x):\n    return 3\n", options()),
                       "expected a tensor or a tuple of tensors"));
  EXPECT_TRUE(contains(refusal("def forward(self, x, z):\n    return x + z\n", options()),
                       "forward takes 2 tensors, but there are 1 inputs"));
  auto wrong = options();
  wrong.inputs[0].shape = {4};
  EXPECT_TRUE(contains(refusal(kSource, wrong), "the first size is the batch, expected -1"));
  wrong.inputs[0].shape = {-1, 0};
  EXPECT_TRUE(contains(refusal(kSource, wrong), "'x' has the shape [-1, 0]"));
  wrong = options();
  wrong.inputs[0].name = "a b";
  EXPECT_TRUE(contains(refusal(kSource, wrong), "'a b' cannot be the name of a tensor"));
  wrong = options();
  wrong.outputs.clear();
  EXPECT_TRUE(contains(refusal(kSource, wrong), "outputs: expected at least one tensor"));
  wrong = options();
  wrong.inputs[0].type = torch::kComplexFloat;
  EXPECT_TRUE(contains(refusal(kSource, wrong), "tensors cannot be served"));
  wrong = options();
  wrong.name = "a/b";
  EXPECT_TRUE(contains(refusal(kSource, wrong), "'a/b' cannot be the name of a model"));
}

}  // namespace
}  // namespace sullae::testing
