// A transformer of one's own, exported by its program, answers batches of any size and length.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "serve/constant_server.h"
#include "sullae/train.h"

namespace sullae::testing {
namespace {

struct TransformerImpl : torch::nn::Module {
  TransformerImpl()
      : embedding(register_module("embedding", torch::nn::Embedding(50, 8))),
        attention(register_module("attention", torch::nn::MultiheadAttention(8, 2))),
        norm(register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{8}))),
        head(register_module("head", torch::nn::Linear(8, 3))) {}
  torch::Tensor forward(const torch::Tensor& words) {
    const auto vectors = embedding(words);
    const auto steps = vectors.transpose(0, 1);
    const auto seen = std::get<0>(attention(steps, steps, steps)).transpose(0, 1);
    return torch::softmax(head(norm(vectors + seen).mean(1)), 1);
  }
  torch::nn::Embedding embedding;
  torch::nn::MultiheadAttention attention;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Transformer);

constexpr const char* kSource = R"(
def forward(self, words):
    x = torch.embedding(self.embedding_weight, words)
    x = torch.layer_norm(x + self.attend(x), [8], self.norm_weight, self.norm_bias)
    return torch.softmax(torch.linear(x.mean(1), self.head_weight, self.head_bias), 1)

def attend(self, x):
    parts = torch.linear(x, self.attention_in_proj_weight, self.attention_in_proj_bias)
    parts = parts.view(x.size(0), x.size(1), 3, 2, 4).permute(2, 0, 3, 1, 4)
    weights = torch.softmax(torch.matmul(parts[0], parts[1].transpose(-2, -1)) / 2.0, -1)
    seen = torch.matmul(weights, parts[2]).transpose(1, 2).reshape(x.size(0), x.size(1), 8)
    return torch.linear(seen, self.attention_out_proj_weight, self.attention_out_proj_bias)
)";

TEST_F(ConstantServerTest, AnswersForATransformerOfOnesOwn) {
  torch::manual_seed(1);
  Transformer model;
  model->eval();
  const torch::NoGradGuard guard;
  export_torchscript(*model, kSource,
                     {.repository = options_.repository,
                      .name = "transformer",
                      .inputs = {{"words", torch::kInt64, {-1, -1}}},
                      .outputs = {{"probabilities", torch::kFloat32, {-1, 3}}},
                      .max_batch_size = 8});
  auto http = client();
  wait_until([&] { return http.get("/v2/models/transformer/ready").status == 200; });
  for (const int rows : {1, 3, 8}) {
    for (const int length : {1, 5}) {
      const auto words = torch::randint(0, 50, {rows, length}, torch::kInt64);
      auto instances = nlohmann::json::array();
      for (int row = 0; row < rows; ++row) {
        const auto* numbers = words[row].data_ptr<std::int64_t>();
        instances.push_back(std::vector<std::int64_t>(numbers, numbers + length));
      }
      const auto answer = http.post("/v1/models/transformer:predict", {{"instances", instances}});
      ASSERT_EQ(answer.status, 200) << answer.body;
      const auto expected = model(words);
      const auto predictions = answer.json()["predictions"];
      ASSERT_EQ(predictions.size(), static_cast<std::size_t>(rows));
      for (int row = 0; row < rows; ++row) {
        for (int c = 0; c < 3; ++c)
          EXPECT_NEAR(predictions[row][c], expected[row][c].item<double>(), 1e-4);
      }
    }
  }
  const auto metadata = http.get("/v2/models/transformer").json();
  EXPECT_EQ(metadata["inputs"][0]["datatype"], "INT64");
  EXPECT_EQ(metadata["outputs"][0]["name"], "probabilities");
  // A word that there is not is the client's mistake, and nobody else's.
  EXPECT_EQ(http.post("/v1/models/transformer:predict", {{"instances", {{50}}}}).status, 400);
}

}  // namespace
}  // namespace sullae::testing
