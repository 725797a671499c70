// From a model of one's own to an entry of a repository.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <fstream>

#include "sullae/train.h"
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
  std::ifstream config(folder.parent_path() / "config.toml");
  const std::string text{std::istreambuf_iterator<char>(config), {}};
  EXPECT_TRUE(contains(text, "[[inputs]]\nname = \"x\"\ndatatype = \"FP32\"\nshape = [-1, 4]"));
  EXPECT_TRUE(contains(text, "[[outputs]]\nname = \"y\"\ndatatype = \"FP32\"\nshape = [-1, 3]"));
  EXPECT_EQ(export_torchscript(*model_, kSource, options()).filename(), "2");
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
