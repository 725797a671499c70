#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <regex>

#include "base/host.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"
#include "predict/predict.h"
#include "predict/row_writer.h"
#include "sullae/data.h"
#include "sullae/sullae.h"

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
        "predictions --format tfrecord");
    app->add_option(
           "MODEL", options_.model,
           "A checkpoint, or a TorchScript file (.pt); or the newest of a model's folder in a "
           "repository, or of a --checkpoint-dir")
        ->required();
    app->add_option("--data", paths_, "Files, folders or patterns")->required()->type_name("PATH");
    app->add_option("--output", options_.output, "Folder of the predictions")
        ->required()
        ->type_name("DIR");
    app->add_option("--format", options_.format, "Of the predictions")
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
                  "also as _report.json and _report.html");
    app->add_option("--rows-per-file", options_.rows_per_file, "Samples a file")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--batch-size", options_.batch_size,
                    "Samples that are computed together; 0: the model's max_batch_size")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--workers", options_.workers, "Threads of each rank; 0: one a processor")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str()
        ->type_name("N");
    app->add_option("--device", options_.device, "cpu, cuda or cuda:N; else as config.toml says")
        ->check(device())
        ->type_name("NAME");
    app->add_flag("--skip-damaged", options_.skip_damaged,
                  "Leave damaged samples out, count and report them, instead of ending with an "
                  "error");
    app->add_flag("--overwrite", options_.overwrite,
                  "Remove the predictions of another run from --output");
    app->add_option("--data-format", options_.reading.format,
                    "Format of the data; auto looks at names and content")
        ->capture_default_str()
        ->type_name("NAME");
    app->add_option("--text-columns", options_.reading.text_columns,
                    "Of tables: the columns of the text")
        ->type_name("NAMES");
    app->add_option("--label-column", options_.reading.label_column,
                    "Of tables: the column of the label")
        ->type_name("NAME");
    app->add_option("--success-file", options_.reading.success_file,
                    "Whether folders of the data must have _SUCCESS; auto: those of Spark and "
                    "Hadoop")
        ->check(CLI::IsMember({"auto", "yes", "no"}))
        ->capture_default_str()
        ->type_name("WHEN");
    return app;
  }

  int run() override {
    const World world = init();
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
  static CLI::Validator device() {
    return {[](const std::string& text) {
              static const std::regex pattern("cpu|cuda(:[0-9]+)?");
              return std::regex_match(text, pattern)
                         ? std::string()
                         : "'" + text + "': expected cpu, cuda or cuda:N";
            },
            ""};
  }
  void print(const predict::Predicted& done) const {
    if (done.found == done.files) {
      fmt::print("nothing was left to do: {} predictions in {} file{} in {}\n", done.rows,
                 done.files, done.files == 1 ? "" : "s", options_.output.string());
    } else {
      fmt::print("wrote {} predictions to {} file{} in {}{}{}, {:.0f} samples/s\n", done.rows,
                 done.files, done.files == 1 ? "" : "s", options_.output.string(),
                 done.found > 0 ? fmt::format(" ({} were there)", done.found) : "",
                 done.damaged > 0 ? fmt::format("; left out {} damaged samples", done.damaged) : "",
                 done.rows_per_second);
    }
    if (done.torn_files > 0)
      fmt::print("{} file{} of the data {} damaged: what lies behind was not read\n",
                 done.torn_files, done.torn_files == 1 ? "" : "s",
                 done.torn_files == 1 ? "is" : "are");
    if (done.confusion) {
      fmt::print("\n{}\n{}\n", done.confusion->to_text(),
                 (options_.output / "_report.html").string());
    }
  }

  predict::PredictOptions options_{.workers = 0};
  std::vector<std::string> paths_;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace sullae::cli
