#include "cli/commands.h"
#include "cli/validators.h"
#include "sullae/sullae.h"
#include "train/task.h"
#include "train/trainer.h"

namespace sullae::cli {
namespace {

using train::Recipe;
using train::TrainOptions;

class TrainCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app =
        program.add_subcommand("train", "Train a ready model; alone, or as a rank of `sullae run`");
    app->require_subcommand(1);
    app->footer("Every model takes the usual options: 'sullae train mnist --help'.");
    for (const auto& recipe : train::recipes()) declare_recipe(*app, *recipe);
    return app;
  }

  int run() override {
    for (const auto& choice : choices_) {
      if (!choice->app->parsed()) continue;
      train::train(*choice->recipe, choice->options, init());
      shutdown();
      return 0;
    }
    return 2;
  }

 private:
  struct Choice {
    const Recipe* recipe;
    CLI::App* app;
    TrainOptions options;
  };

  void declare_recipe(CLI::App& parent, const Recipe& recipe) {
    choices_.push_back(std::make_unique<Choice>(Choice{&recipe, nullptr, recipe.defaults()}));
    Choice& choice = *choices_.back();
    TrainOptions& o = choice.options;
    choice.app = parent.add_subcommand(recipe.name(), "Train: " + recipe.summary());
    CLI::App& app = *choice.app;
    // Given twice, the last one counts, so that scripts can append to a common line.
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app.add_option("--data", o.data, "Folder with the data set")
        ->capture_default_str()
        ->type_name("DIR");
    app.add_option("--epochs", o.epochs, "Times through the training data")
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--batch-size", o.batch_size, "Samples a step, over all ranks together")
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--lr", o.lr, "Learning rate")->capture_default_str()->type_name("X");
    app.add_option("--lr-schedule", o.lr_schedule,
                   "Course of the learning rate; linear and cosine fall to 0 at the end")
        ->check(CLI::IsMember({"constant", "linear", "cosine"}))
        ->capture_default_str();
    app.add_option("--optimizer", o.optimizer, "Optimizer")
        ->check(CLI::IsMember({"adam", "sgd"}))
        ->capture_default_str();
    app.add_option("--momentum", o.momentum, "Momentum of sgd")
        ->capture_default_str()
        ->type_name("X");
    app.add_option("--weight-decay", o.weight_decay, "L2 penalty")
        ->capture_default_str()
        ->type_name("X");
    app.add_option("--clip-norm", o.clip_norm, "Scale gradients down to this norm; 0 leaves them")
        ->capture_default_str()
        ->type_name("X");
    app.add_flag("!--no-overlap", o.overlap,
                 "Reduce gradients after backward instead of during it, to compare");
    app.add_option("--compression", o.compression,
                   "How gradients travel: none, float16, bfloat16, or topk:FRACTION of them")
        ->capture_default_str()
        ->type_name("NAME");
    app.add_option("--seed", o.seed, "Seed of weights, order and dropout")
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--max-steps", o.max_steps, "End after this many steps; 0 trains all epochs")
        ->capture_default_str()
        ->type_name("N");
    app.add_option("--checkpoint-dir", o.checkpoint_dir, "Write a checkpoint here after each epoch")
        ->type_name("DIR");
    app.add_option("--keep-checkpoints", o.keep_checkpoints, "Checkpoints to keep")
        ->capture_default_str()
        ->type_name("N");
    app.add_flag("--resume", o.resume,
                 "Go on after the newest whole checkpoint in --checkpoint-dir");
    app.add_option("--report", o.report, "Write the results here, as JSON")->type_name("FILE");
    app.add_option("--log-interval", o.log_interval,
                   "Steps between progress lines, where the output is no terminal")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    for (const auto& extra : recipe.extra_options()) {
      double& value = o.extra[extra.flag] = extra.value;
      app.add_option("--" + extra.flag, value, extra.help)
          ->check(number(Zero::allowed))
          ->capture_default_str()
          ->type_name("X")
          ->group("Options of " + recipe.name());
    }
  }

  std::vector<std::unique_ptr<Choice>> choices_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace sullae::cli
