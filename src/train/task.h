// The seams between the trainer and what it trains: a model with its data, and the recipe that
// makes it.
#pragma once

#include <torch/nn/module.h>
#include <torch/script.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/train/data.h"
#include "sullae/train/objective.h"
#include "train/description.h"
#include "train/models/key_value_cache.h"
#include "train/models/piece_embedding.h"
#include "train/options.h"

namespace sullae::train {

/// What a model that a recipe trains must be besides a torch::nn::Module that can clone().
class Servable {
 public:
  virtual ~Servable() = default;
  /// In TorchScript, as in evaluation, sharing the parameters. Its method forward takes images,
  /// [batch, channels, rows, columns]; or words, [batch, time] int64 with zeros behind the shorter
  /// texts, and the texts' lengths, [batch] int64. It returns scores before softmax, in the order
  /// of its input: of classes, [batch, classes], or of what comes behind each text, [batch,
  /// pieces].
  virtual torch::jit::Module script() const = 0;
};

class Classifier : public Servable {
 public:
  /// [batch, classes], before softmax.
  virtual torch::Tensor scores(const Batch& batch) = 0;
};

/// Gets `states`, [places, size], what is known at each place of texts of its piece and those
/// before it, and the vectors of pieces: the scores, before softmax, of what follows a place are
/// its state's products with all of them.
using UseOfStates =
    std::function<torch::Tensor(const torch::Tensor& states, const PieceVectors& vectors)>;

/// Says how texts go on.
class LanguageModel : public Servable {
 public:
  /// What `use` makes of the places of `pieces`, [batch, time] int64, text by text.
  virtual torch::Tensor read(const torch::Tensor& pieces, const UseOfStates& use) = 0;
  /// What follows each of `texts`, [texts, pieces], before softmax. Their new pieces are in their
  /// caches then. Without gradients, in any thread, of other texts in several at once.
  virtual torch::Tensor go_on(const std::vector<NewPieces>& texts) = 0;
};

/// The usual objective: cross-entropy of a Classifier's scores.
Classification classification(double label_smoothing = 0);

/// A model and its data. Used by the training thread.
class Task : public Data {
 public:
  /// Also Servable: a Classifier, unless objective() is another than theirs.
  virtual std::shared_ptr<torch::nn::Module> model() = 0;
  virtual const ModelDescription& description() const = 0;
  virtual std::unique_ptr<Objective> objective(double label_smoothing) const;
};

/// A numeric flag of a recipe's own.
struct ExtraOption {
  /// Whole numbers from 1 or from 0, numbers from 0 to less than 1, or 0 and 1.
  enum class Takes { count, count_or_0, part, truth };

  /// Throws InputError for a value that it does not take.
  void check(double given) const;

  std::string flag;  ///< without dashes
  double value = 0;
  std::string help;
  Takes takes = Takes::count;
};

/// A sample that came after a model was trained, as an operator gives it.
struct AddedSample {
  /// A text, or a JPEG file.
  std::string input;
  /// Means nothing where the model has no classes.
  std::string label;
};

/// The class that `sample` is given. Throws InputError for one that the model does not know.
std::int64_t label_of(const AddedSample& sample, const ModelDescription& description);
/// Throws InputError where the label of an old sample at `place` is no class of a model that has
/// `classes`.
void check_label(std::int64_t label, std::int64_t classes, const std::string& place);

/// What a trained model is trained further with: what it was trained on, and behind it samples that
/// came since, in both splits: for training, and to be judged by as test samples are, without
/// augmentation.
struct Refinement {
  std::unique_ptr<Task> task;
  /// The old training samples' numbers by class, without those that an added sample takes the place
  /// of (which are not among the test samples either).
  std::vector<std::vector<std::size_t>> old_by_class;
  /// The number of the first added sample among those for training.
  std::size_t first_added = 0;
  /// How many old test samples there are, and so the number of the first added one behind them.
  std::size_t old_test = 0;
  /// How many samples each added one is, one after the other; empty: one each.
  std::vector<std::size_t> samples_of_added;
};

/// A ready model with its defaults, trained by `sullae train <name>`.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual RecipeOptions defaults() const = 0;
  virtual std::vector<ExtraOption> extra_options() const { return {}; }
  /// Which of `sullae train`'s flags for data mean nothing to it, without dashes: they are refused,
  /// but for their defaults.
  virtual std::vector<std::string> left_out_options() const { return {}; }
  /// The network that `description` is of, with fresh weights; also Servable.
  virtual std::shared_ptr<torch::nn::Module> model(const ModelDescription& description) const = 0;
  /// With fresh weights. `world` is that of all ranks that train; `known`, where it is not null, is
  /// that of a model whose words and classes are taken, and those of the data must be among them.
  /// Throws InputError.
  virtual std::unique_ptr<Task> make(const RecipeOptions& options, const World& world,
                                     const ModelDescription* known) const = 0;
  /// To train a model of `description` further on the data that `options` name and `added`. The
  /// task's model has fresh weights. Throws InputError, also where the recipe does not do that.
  virtual Refinement refine(const ModelDescription& description, const RecipeOptions& options,
                            const std::vector<AddedSample>& added, const World& world) const;
};

/// The recipe's task, with the weights that training begins with: those of options.init_from, or
/// drawn from options.seed. Throws InputError.
std::unique_ptr<Task> make_task(const Recipe& recipe, const RecipeOptions& options,
                                const World& world);

/// All recipes. A new one is a file and a line in recipes.cc.
const std::vector<std::unique_ptr<Recipe>>& recipes();
/// Throws InputError.
const Recipe& find_recipe(const std::string& name);

}  // namespace sullae::train
