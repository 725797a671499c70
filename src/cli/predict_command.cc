#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "base/counted.h"
#include "base/device_name.h"
#include "base/end_signals.h"
#include "base/host.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/progress_bar.h"
#include "cli/reading_options.h"
#include "cli/stream_monitor.h"
#include "cli/validators.h"
#include "predict/predict.h"
#include "predict/row_writer.h"
#include "predict/stream.h"
#include "sullae/data.h"
#include "sullae/sullae.h"
#include "train/options.h"

namespace sullae::cli {
namespace {

class PredictCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("predict", description_of("predict"));
    app->footer(
        "Run again after an interruption it does what is missing; _SUCCESS is written last.\n"
        "Examples:\n"
        "  sullae predict models/nsmc --data reviews.csv --columns id --output predictions\n"
        "  sullae predict checkpoints --data test.tsv --labels --output tested\n"
        "  sullae run -np 4 sullae predict models/resnet50 --data 'photos-*.tar' --output "
        "predictions --format tfrecord\n"
        "  sullae predict models/nsmc --source kafka://broker:9092/reviews --sink "
        "kafka://broker:9092/opinions");
    app->add_option("MODEL", options_.model,
                    "A checkpoint, or a TorchScript file (.pt); or the "
                    "newest of a model's folder in a "
                    "repository, or of a --checkpoint-dir. In a store, too, but for the latter")
        ->required();
    auto* const data =
        app->add_option("--data", paths_, "Files, folders or patterns")->type_name("PATH");
    auto* const output =
        app->add_option("--output", options_.output, "Folder of the predictions")->type_name("DIR");
    declare_stream(*app, {data, output});
    app->add_option("--format", options_.format, "Of the predictions; messages are none of parquet")
        ->check(CLI::IsMember(predict::formats()))
        ->capture_default_str();
    app->add_option("--columns", options_.columns,
                    "Columns, or features, of the data that are written beside the predictions")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("NAMES");
    app->add_option("--outputs", options_.outputs, "Outputs of the model to write; else all")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("NAMES");
    app->add_flag("--labels", options_.labels,
                  "Compare with the labels of the data: accuracy, confusion, precision and recall, "
                  "also as _report.json and _report.html")
        ->excludes(source_);
    app->add_option("--rows-per-file", options_.rows_per_file, "Samples a file")
        ->excludes(source_)
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--batch-size", options_.batch_size,
                    "Samples that are computed together; 0: the model's max_batch_size")
        ->check(integer_from(0, 1 << 20))
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--workers", options_.workers, "Threads of each rank; 0: one a processor")
        ->check(integer_from(0, 1024))
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--device", options_.device, "cpu, cuda or cuda:N; else as config.toml says")
        ->check(device())
        ->type_name("NAME");
    app->add_flag("--skip-damaged", options_.skip_damaged,
                  "Leave damaged samples out, count and report them, instead of ending with an "
                  "error");
    app->add_flag("--overwrite", options_.overwrite,
                  "Remove the predictions of another run from --output")
        ->excludes(source_);
    add_reading_options(*app, "--data-format", options_.reading)->excludes(source_);
    return app;
  }

  int run() override {
    const World world = init();
    if (!from_.empty()) return run_stream(world);
    if (paths_.empty() || options_.output.empty())
      throw InputError("expected --data and --output, or --source and --sink");
    options_.data.assign(paths_.begin(), paths_.end());
    if (options_.workers == 0) options_.workers = static_cast<std::size_t>(available_cpus());
    std::optional<ProgressBar> bar;
    const auto done = predict::predict(options_, world, [&](std::size_t count, std::size_t total) {
      if (!bar) bar.emplace("predicting", total, world.rank() == 0);
      bar->show(count);
    });
    bar.reset();
    if (world.rank() == 0) print(done);
    shutdown();
    return 0;
  }

 private:
  void declare_stream(CLI::App& app, const std::vector<CLI::Option*>& of_files) {
    source_ = app.add_option("--source", from_,
                             "A topic of Kafka, whose messages are predicted as they come: "
                             "kafka://HOST:PORT[,…]/TOPIC")
                  ->type_name("TOPIC");
    for (CLI::Option* const option : of_files) source_->excludes(option);
    auto* const sink = app.add_option("--sink", to_, "The topic that gets the predictions")
                           ->needs(source_)
                           ->type_name("TOPIC");
    source_->needs(sink);
    app.add_option("--group", group_,
                   "Consumer group: its members share the partitions and go on where it was; else "
                   "sullae-predict-TOPIC of the sink")
        ->needs(source_)
        ->type_name("NAME");
    app.add_flag("--once", once_, "Predict what is there now, and end")->needs(source_);
    app.add_option("--metrics-file", metrics_,
                   "How far it is, for Prometheus (node_exporter's textfile collector)")
        ->needs(source_)
        ->type_name("FILE");
  }

  int run_stream(const World& world) {
    predict::StreamOptions stream{.source = kafka::parse_address(from_),
                                  .sink = kafka::parse_address(to_),
                                  .group = group_,
                                  .once = once_};
    for (const auto& address : {stream.source, stream.sink}) {
      if (!address.window.empty())
        throw InputError(
            fmt::format("{}: expected a topic without offsets: its group says what comes next",
                        address.to_string()));
    }
    if (stream.source.name() == stream.sink.name())
      throw InputError(fmt::format("--sink {}: is what is read: expected another topic", to_));
    if (stream.group.empty()) stream.group = "sullae-predict-" + stream.sink.topic;
    train::require_writable(metrics_, "metrics-file");
    if (options_.workers == 0) options_.workers = static_cast<std::size_t>(available_cpus());
    const EndSignals signals;
    StreamMonitor monitor(stream.source.name(), metrics_, world.rank());
    const auto done = predict::predict_stream(
        options_, stream, [&] { return signals.come_within(std::chrono::milliseconds{0}); },
        [&](const predict::StreamProgress& progress) { monitor.show(progress); });
    monitor.finish(done);
    fmt::print("predicted {} messages{}\n", done.predicted,
               done.damaged > 0 ? fmt::format("; left out {} damaged ones", done.damaged) : "");
    shutdown();
    return 0;
  }

  static CLI::Validator device() {
    return {[](const std::string& text) {
              return is_device_name(text) ? std::string()
                                          : "'" + text + "': expected " + kDeviceNames;
            },
            ""};
  }
  void print(const predict::Predicted& done) const {
    const std::string left_out =
        done.damaged > 0 ? fmt::format("; left out {}", counted(done.damaged, "damaged sample"))
                         : "";
    if (done.found == done.files) {
      fmt::print("nothing was left to do: {} predictions in {} in {}{}\n", done.rows,
                 counted(done.files, "file"), options_.output.string(), left_out);
    } else {
      fmt::print("wrote {} predictions to {} in {}{}{}, {:.0f} samples/s\n", done.rows,
                 counted(done.files, "file"), options_.output.string(),
                 done.found > 0 ? fmt::format(" ({} were there)", done.found) : "", left_out,
                 done.rows_per_second);
    }
    if (done.torn_files > 0)
      fmt::print("{} of the data {} damaged: what lies behind was not read\n",
                 counted(done.torn_files, "file"), done.torn_files == 1 ? "is" : "are");
    if (done.confusion) {
      fmt::print("\n{}\n{}\n", done.confusion->to_text(),
                 (options_.output / "_report.html").string());
    }
  }

  predict::PredictOptions options_{.workers = 0};
  std::vector<std::string> paths_;
  CLI::Option* source_ = nullptr;
  std::string from_;
  std::string to_;
  std::string group_;
  bool once_ = false;
  std::filesystem::path metrics_;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace sullae::cli
