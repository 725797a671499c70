#include "serve/model/quantize.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/torch.h>

#include <algorithm>

#include "sullae/error.h"

namespace sullae::serve {
namespace {

using torch::jit::IValue;
using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;

void choose_engine() {
  auto& context = at::globalContext();
  if (context.qEngine() != at::kNoQEngine) return;
  for (const auto engine : context.supportedQEngines()) {
    if (engine == at::kFBGEMM || engine == at::kQNNPACK) {
      context.setQEngine(engine);
      return;
    }
  }
  throw Error("quantize = \"int8\": this libtorch has no engine for 8-bit numbers");
}

IValue call(const char* name, Stack arguments) {
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  handle.callBoxed(&arguments);
  return arguments.at(0);
}

// Symmetric, so that zero stays zero: QNNPACK takes no other for weights.
torch::Tensor quantised(const torch::Tensor& weight) {
  constexpr double kLargest = 127;
  const auto plain = weight.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  const double scale = std::max(plain.abs().max().item<double>() / kLargest, 1e-12);
  return torch::quantize_per_tensor(plain, scale, 0, torch::kQInt8);
}

IValue pack(const torch::Tensor& weight, const IValue& bias) {
  return call("quantized::linear_prepack", {quantised(weight), bias});
}

class Rewriter {
 public:
  explicit Rewriter(torch::jit::Module& module)
      : module_(module), graph_(module.get_method("forward").graph()) {}

  void run() {
    std::vector<Node*> nodes;
    for (Node* node : graph_->nodes()) nodes.push_back(node);
    for (Node* node : nodes) {
      // Read once: what is replaced is destroyed.
      const auto kind = node->kind();
      if (kind == c10::Symbol::fromQualString("aten::linear")) replace_linear(node);
      if (kind == c10::Symbol::fromQualString("aten::lstm")) replace_lstm(node);
    }
    torch::jit::EliminateDeadCode(graph_);
  }

 private:
  static c10::optional<torch::Tensor> constant(Value* value) {
    const auto found = torch::jit::toIValue(value);
    if (!found || !found->isTensor()) return c10::nullopt;
    return found->toTensor();
  }

  // Objects cannot be constants of a graph, so they are attributes of the module.
  Value* attribute(const IValue& object) {
    const auto name = fmt::format("quantised_{}", count_++);
    module_.register_attribute(name, object.type(), object);
    Value* value = graph_->insertGetAttr(graph_->inputs()[0], name);
    value->setType(object.type());
    return value;
  }

  void replace(Node* old, Node* with) {
    graph_->insertNode(with);
    for (std::size_t i = 0; i < old->outputs().size(); ++i) {
      with->outputs()[i]->setType(old->outputs()[i]->type());
      old->outputs()[i]->replaceAllUsesWith(with->outputs()[i]);
    }
    old->destroy();
  }

  void replace_linear(Node* node) {
    const auto weight = constant(node->inputs()[1]);
    const auto bias = torch::jit::toIValue(node->inputs()[2]);
    if (!weight || !bias) return;
    const torch::jit::WithInsertPoint point(node);
    Value* packed = attribute(pack(*weight, *bias));
    Value* reduce_range = graph_->insertConstant(false);
    replace(node, graph_->create(c10::Symbol::fromQualString("quantized::linear_dynamic"),
                                 {node->inputs()[0], packed, reduce_range}));
  }

  // aten::lstm.data: data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional.
  void replace_lstm(Node* node) {
    const auto& inputs = node->inputs();
    constexpr std::size_t kInputs = 9;
    constexpr std::size_t kWeightsALayer = 4;
    if (inputs.size() != kInputs || inputs[1]->type()->kind() != c10::TypeKind::TensorType) return;
    const auto weights = torch::jit::toIValue(inputs[3]);
    std::vector<torch::Tensor> tensors;
    if (weights && weights->isTensorList()) {
      tensors = weights->toTensorVector();
    } else {
      for (Value* element : inputs[3]->node()->inputs()) {
        const auto tensor = constant(element);
        if (!tensor) return;
        tensors.push_back(*tensor);
      }
    }
    if (tensors.empty() || tensors.size() % kWeightsALayer != 0) return;
    const torch::jit::WithInsertPoint point(node);
    std::vector<Value*> cells;
    for (std::size_t i = 0; i < tensors.size(); i += kWeightsALayer) {
      const IValue ih = pack(tensors[i], tensors[i + 2]);
      const IValue hh = pack(tensors[i + 1], tensors[i + 3]);
      cells.push_back(attribute(call("quantized::make_quantized_cell_params_dynamic",
                                     {ih, hh, tensors[i + 2], tensors[i + 3], false})));
    }
    Node* list = graph_->insertNode(graph_->createList(cells[0]->type(), cells));
    Value* type = graph_->insertConstant(static_cast<std::int64_t>(torch::kQInt8));
    Value* dynamic = graph_->insertConstant(true);
    replace(node, graph_->create(c10::Symbol::fromQualString("aten::quantized_lstm"),
                                 {inputs[0], inputs[1], inputs[2], list->output(), inputs[4],
                                  inputs[5], inputs[6], inputs[7], inputs[8], type, dynamic},
                                 node->outputs().size()));
  }

  torch::jit::Module& module_;
  std::shared_ptr<torch::jit::Graph> graph_;
  int count_ = 0;
};

}  // namespace

void quantize_to_int8(torch::jit::Module& module) {
  choose_engine();
  Rewriter(module).run();
}

}  // namespace sullae::serve
