// A transformer that writes like the text that it reads, byte by byte, with Sullae's trainer:
// epochs, schedule, metrics, checkpoints, resuming, progress, report, on any number of ranks; and
// then into service.
//
//   sullae run -np 2 ./train --text FILE --epochs 5       a text is made up where none is given
//   sullae serve models
#include <sullae/train.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

constexpr std::int64_t kTime = 64;    // bytes that the model sees
constexpr std::int64_t kSize = 64;    // of a byte's vector
constexpr std::int64_t kBytes = 256;  // different ones

// Attention and a small network, each with a norm before and a sum after (A. Radford et al., 2019:
// GPT-2).
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kSize})));
    qkv = register_module("qkv", torch::nn::Linear(kSize, 3 * kSize));
    mix = register_module("mix", torch::nn::Linear(kSize, kSize));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kSize})));
    up = register_module("up", torch::nn::Linear(kSize, 4 * kSize));
    down = register_module("down", torch::nn::Linear(4 * kSize, kSize));
  }
  torch::Tensor forward(torch::Tensor x) {
    const auto parts = qkv(norm1(x)).chunk(3, 2);
    const auto later = torch::ones({x.size(1), x.size(1)}, x.device()).triu(1).to(torch::kBool);
    const auto scores = torch::matmul(parts[0], parts[1].transpose(1, 2)) / std::sqrt(kSize);
    x = x + mix(torch::matmul(torch::softmax(scores.masked_fill(later, -1e9), 2), parts[2]));
    return x + down(torch::gelu(up(norm2(x))));
  }
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, mix{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct WriterImpl : torch::nn::Module {
  WriterImpl() {
    bytes = register_module("bytes", torch::nn::Embedding(kBytes, kSize));
    places = register_module("places", torch::nn::Embedding(kTime, kSize));
    first = register_module("first", Block());
    second = register_module("second", Block());
    head = register_module("head", torch::nn::Linear(kSize, kBytes));
  }
  // [batch, time] -> [batch, time, bytes]
  torch::Tensor forward(const torch::Tensor& x) {
    const auto at = torch::arange(x.size(1), x.device());
    return head(second(first(bytes(x) + places(at))));
  }
  torch::nn::Embedding bytes{nullptr}, places{nullptr};
  Block first{nullptr}, second{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Writer);

// The same in TorchScript: the bytes that follow, most likely first.
constexpr const char* kService = R"(
def norm(self, x, weight, bias):
    return torch.layer_norm(x, [64], weight, bias)

def block(self, x, n1w, n1b, qkvw, qkvb, mixw, mixb, n2w, n2b, upw, upb, downw, downb):
    q, k, v = torch.chunk(torch.linear(self.norm(x, n1w, n1b), qkvw, qkvb), 3, 2)
    later = torch.triu(torch.ones([x.size(1), x.size(1)]), 1) > 0
    scores = torch.matmul(q, k.transpose(1, 2)) / 8.0
    x = x + torch.linear(torch.matmul(torch.softmax(scores.masked_fill(later, -1e9), 2), v), mixw, mixb)
    return x + torch.linear(torch.gelu(torch.linear(self.norm(x, n2w, n2b), upw, upb)), downw, downb)

def forward(self, bytes):
    x = torch.embedding(self.bytes_weight, bytes) + self.places_weight[:bytes.size(1)]
    x = self.block(x, self.first_norm1_weight, self.first_norm1_bias, self.first_qkv_weight, self.first_qkv_bias, self.first_mix_weight, self.first_mix_bias, self.first_norm2_weight, self.first_norm2_bias, self.first_up_weight, self.first_up_bias, self.first_down_weight, self.first_down_bias)
    x = self.block(x, self.second_norm1_weight, self.second_norm1_bias, self.second_qkv_weight, self.second_qkv_bias, self.second_mix_weight, self.second_mix_bias, self.second_norm2_weight, self.second_norm2_bias, self.second_up_weight, self.second_up_bias, self.second_down_weight, self.second_down_bias)
    return torch.softmax(torch.linear(x[:, -1], self.head_weight, self.head_bias), 1)
)";

std::string read_or_make_up(const std::string& file) {
  if (!file.empty()) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) throw sullae::InputError(file + ": cannot be read");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  const char* const words[] = {"the ", "dancers ", "hold ", "hands ", "and ", "turn ", "round "};
  std::mt19937 draw(1);
  std::string text;
  while (text.size() < 60000) text += words[draw() % std::size(words)];
  return text;
}

// Pieces of kTime bytes, and for each byte the one that follows it.
sullae::train::TensorData::Samples pieces_of(const std::string& text) {
  const auto count = (static_cast<std::int64_t>(text.size()) - 1) / kTime;
  if (count < 1) throw sullae::InputError("the text is too short");
  auto* const data = const_cast<char*>(text.data());
  const auto from = [&](std::int64_t first) {
    return torch::from_blob(data + first, {count, kTime}, torch::kUInt8).to(torch::kInt64);
  };
  return {from(0), from(1)};
}

int train(std::map<std::string, std::string> flags) {
  sullae::init();
  const std::string text = read_or_make_up(flags["--text"]);
  const std::size_t most = text.size() / 10 * 9;
  sullae::train::TensorData data(pieces_of(text.substr(0, most)), pieces_of(text.substr(most)),
                                 flags["--text"].empty() ? "a made-up text" : flags["--text"]);
  torch::manual_seed(1);
  Writer model;
  const sullae::train::LanguageModelling objective(sullae::train::forward_of<WriterImpl>());
  sullae::train::TrainOptions options;
  options.epochs = flags["--epochs"].empty() ? 5 : std::stoi(flags["--epochs"]);
  options.batch_size = 32;
  options.optimizer = "adamw";
  options.lr = 3e-3;
  options.clip_norm = 1;
  options.checkpoint_dir = "checkpoints";
  options.resume = true;  // where there is one
  options.report = "report.json";
  sullae::train::fit(*model, objective, data, options, "writer");

  if (sullae::rank() == 0) {
    sullae::export_torchscript(*model, kService,
                               {.repository = "models",
                                .name = "writer",
                                .inputs = {{"bytes", torch::kInt64, {-1, -1}}},
                                .outputs = {{"next", torch::kFloat32, {-1, kBytes}}}});
  }
  sullae::shutdown();
  return 0;
}

int main(int argc, char** argv) {
  try {
    std::map<std::string, std::string> flags;
    for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
    return train(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
