#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/environment.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/toml_config.h"
#include "cli/train_options.h"
#include "cli/validators.h"
#include "sullae/elastic.h"
#include "sullae/sullae.h"
#include "sullae/train/fit.h"
#include "train/evaluator.h"
#include "train/source.h"
#include "train/trainer.h"
#include "transport/tf_config.h"

namespace sullae::cli {
namespace {

class TrainCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("train", description_of("train"));
    app->require_subcommand(1);
    app->footer("'sullae train MODEL --help' lists the options of a model.");
    for (const auto& recipe : train::recipes()) declare_recipe(*app, *recipe);
    return app;
  }

  int run() override {
    for (const auto& choice : choices_) {
      if (!choice->app->parsed()) continue;
      if (!choice->config.empty()) apply_toml(*choice->app, choice->config);
      choice->options.configuration = configuration_of(*choice->app);
      if (choice->print_config) {
        std::fputs(choice->options.configuration.c_str(), stdout);
        return 0;
      }
      if (!choice->options.source.empty()) check_source(is_evaluator() || choice->evaluates);
      train::check_all_used(choice->options, choice->recipe->defaults());
      if (is_evaluator()) {
        write_apart(choice->options);
        train::evaluate_checkpoints(*choice->recipe, choice->options, World::create({}));
        return 0;
      }
      if (choice->evaluates) {
        write_apart(choice->options);
        train::evaluate_checkpoints(*choice->recipe, choice->options, init());
        shutdown();
        return 0;
      }
      if (elastic::is_elastic()) {
        train::train_elastic(*choice->recipe, choice->options);
        shutdown();
        return 0;
      }
      const World world = init();
      if (!choice->options.source.empty()) settle(*choice, world);
      if (world.rank() == 0 && !choice->config.empty())
        fmt::print("configuration ({} and the command line):\n{}\n", choice->config,
                   choice->options.configuration);
      choice->options.end_on_signals = true;
      try {
        train::train(*choice->recipe, choice->options, world);
      } catch (const train::Stopped& stopped) {
        shutdown();
        return 128 + stopped.signal();
      }
      train::finish_source(choice->options, init());  // another world, where ranks have ended
      shutdown();
      return 0;
    }
    return 2;
  }

 private:
  struct Choice {
    const train::Recipe* recipe;
    CLI::App* app;
    train::RecipeOptions options;
    std::string config;
    bool print_config = false;
    bool evaluates = false;
  };

  static void check_source(bool evaluates) {
    if (evaluates)
      throw InputError(
          "--source: who tests checkpoints needs --test-data, and the --data of those who train");
    if (elastic::is_elastic())
      throw InputError(
          "--source: ranks of an elastic job come at any time, and are to have the same messages: "
          "expected --data with their offsets, as `sullae data inspect` prints them");
  }

  // What is trained on, as the configuration has it from then on.
  static void settle(Choice& choice, const World& world) {
    CLI::Option& data = *choice.app->get_option("--data");
    data.clear();
    data.add_result(train::settle_source(choice.options, choice.recipe->name(), world));
    data.run_callback();
    choice.options.configuration = configuration_of(*choice.app);
  }

  // What says where results go, and not what is trained, is no part of it.
  static std::string configuration_of(const CLI::App& app) {
    return to_toml(app,
                   {"config", "print-config", "resume", "export", "evaluator", "source", "group"});
  }

  // The command line is the trainer's too, and the folder perhaps as well.
  static void write_apart(train::RecipeOptions& options) {
    for (std::filesystem::path* const file : {&options.report, &options.metrics_file}) {
      if (file->empty()) continue;
      const auto name = file->stem().string() + "-evaluator" + file->extension().string();
      file->replace_filename(name);
    }
    if (!options.tensorboard_dir.empty()) options.tensorboard_dir /= "evaluator";
    if (!options.run_dir.empty()) options.run_dir += "-evaluator";
  }

  static bool is_evaluator() {
    const auto config = tf_config(process_environment());
    return config && config->task == TfConfig::Task::evaluator;
  }

  void declare_recipe(CLI::App& parent, const train::Recipe& recipe) {
    choices_.push_back(std::make_unique<Choice>(Choice{&recipe, nullptr, recipe.defaults(), {}}));
    Choice& choice = *choices_.back();
    choice.app = parent.add_subcommand(recipe.name(), "Train: " + recipe.summary());
    // Given twice, the last one counts, so that scripts can append to a common line.
    choice.app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    choice.app
        ->add_option("--config", choice.config,
                     "A TOML file with any of the options below, under the same names")
        ->check(nonempty())
        ->type_name("FILE");
    choice.app->add_flag("--print-config", choice.print_config,
                         "Print the merged configuration as TOML, and end");
    choice.app->add_flag(
        "--evaluator", choice.evaluates,
        "Train nothing: test each new checkpoint in --checkpoint-dir, until the last; "
        "as the evaluator of a TF_CONFIG does. What it writes is named apart from the trainer's "
        "(report-evaluator.json)");
    declare_train_options(*choice.app, choice.options, recipe);
  }

  std::vector<std::unique_ptr<Choice>> choices_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace sullae::cli
