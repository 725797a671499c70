#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/validators.h"
#include "sullae/online.h"

namespace sullae::cli {
namespace {

class OnlineCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("online", description_of("online"));
    app->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app->add_option("repository", options_.repository,
                    "The model repository that `sullae serve` serves")
        ->required()
        ->type_name("DIR");
    app->add_option("--model", options_.models, "Look after this model alone. May be repeated")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false)
        ->type_name("NAME");
    app->add_flag("--once", options_.once, "Train what has changed now, and end");
    app->add_option("--poll-secs", poll_seconds_, "Seconds between looks for samples and calls")
        ->check(number(Zero::refused))
        ->capture_default_str()
        ->type_name("SECONDS");
    declare_source(*app);
    app->footer(
        "When and how each model learns stands under [online] in DIR/<model>/config.toml; see "
        "docs/online.md.");
    return app;
  }

  int run() override {
    options_.poll = to_milliseconds(poll_seconds_);
    const World world = init();
    learn_online(options_, world);
    shutdown();
    return 0;
  }

 private:
  void declare_source(CLI::App& app) {
    OnlineSource& source = options_.source;
    auto* const topic =
        app.add_option("--source", source.topic,
                       "Samples with labels from a topic of Kafka, for the one --model: "
                       "kafka://HOST:PORT[,…]/TOPIC")
            ->type_name("TOPIC");
    app.add_option("--group", source.group,
                   "Consumer group, which goes on where it was; else sullae-online-MODEL")
        ->needs(topic)
        ->type_name("NAME");
    app.add_option("--data-format", source.format, "Of the messages: jsonl, csv, tsv, tfrecord")
        ->needs(topic)
        ->capture_default_str()
        ->type_name("NAME");
    app.add_option("--text-columns", source.text_columns, "Of the messages: what is the text")
        ->needs(topic)
        ->type_name("NAMES");
    app.add_option("--label-column", source.label_column, "Of the messages: what is the label")
        ->needs(topic)
        ->type_name("NAME");
    app.add_flag("--skip-damaged", source.skip_damaged,
                 "Leave messages out that are no samples, count and report them, instead of ending "
                 "with an error")
        ->needs(topic);
  }

  OnlineOptions options_;
  double poll_seconds_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_online_command() { return std::make_unique<OnlineCommand>(); }

}  // namespace sullae::cli
