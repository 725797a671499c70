// What tells the recipes for texts apart: how texts become numbers, and the network that takes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sullae/data.h"
#include "train/models/layer.h"
#include "train/task.h"

namespace sullae::train {

/// Texts of a split, as numbers.
struct EncodedTexts {
  std::vector<std::vector<std::int64_t>> words;
  std::vector<std::int64_t> labels;
};

class TextNetwork {
 public:
  virtual ~TextNetwork() = default;
  virtual void set_defaults(RecipeOptions& options) const = 0;
  virtual std::vector<ExtraOption> extra_options() const = 0;
  /// Puts into `description` what make_text_encoder() needs: of equal texts the same.
  virtual void learn(const std::vector<data::LabelledText>& texts,
                     ModelDescription& description) const = 0;
  /// What `description` is of, with fresh weights; also a Classifier. `division` is none where it
  /// has_sparse_gradients().
  virtual std::shared_ptr<torch::nn::Module> model(const Division& division,
                                                   const ModelDescription& description) const = 0;
  virtual Batch batch(const EncodedTexts& texts, const std::vector<std::size_t>& samples) const = 0;
  /// Of the words of a step alone.
  virtual bool has_sparse_gradients() const = 0;
};

/// Of texts in whichever language, or English ones, whose words are found without their
/// punctuation.
enum class TextKind { any, english };

std::unique_ptr<TextNetwork> make_lstm_network(TextKind kind);
std::unique_ptr<TextNetwork> make_bag_network();
std::unique_ptr<TextNetwork> make_transformer_network();

}  // namespace sullae::train
