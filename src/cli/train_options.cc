#include "cli/train_options.h"

#include <filesystem>
#include <type_traits>

#include "cli/reading_options.h"
#include "cli/validators.h"
#include "train/optimizers.h"
#include "train/schedule.h"

namespace sullae::cli {
namespace {

using train::RecipeOptions;

// Adds options to one group of the help text.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  template <class Value>
  CLI::Option* add_unchecked(const char* flag, Value& value, const std::string& help,
                             const char* type) {
    return app_.add_option(flag, value, help)->capture_default_str()->type_name(type)->group(name_);
  }
  template <class Value>
  CLI::Option* add(const char* flag, Value& value, const std::string& help, const char* type) {
    auto* const option = add_unchecked(flag, value, help, type);
    if constexpr (std::is_integral_v<Value>) {
      option->check(whole_number<Value>());
    } else if constexpr (std::is_floating_point_v<Value>) {
      option->check(any_number());
    } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
      option->check(nonempty());
    }
    return option;
  }
  void flag(const char* name, bool& value, const std::string& help) {
    app_.add_flag(name, value, help)->default_str(value ? "true" : "false")->group(name_);
  }
  void negative_flag(const char* name, bool& value, const std::string& help) {
    add_negative_flag(app_, name, value, help)->group(name_);
  }

 private:
  CLI::App& app_;
  std::string name_;
};

void declare_data(CLI::App& app, RecipeOptions& o) {
  Group group(app, "Data");
  // Empty: not that of the usual place either.
  group.add_unchecked("--data", o.data,
                      "The data set: a folder, a file, or a pattern such as 'part-*'", "PATH");
  group
      .add("--source", o.source,
           "Instead: a topic of Kafka, kafka://HOST:PORT[,…]/TOPIC: the messages that it has now; "
           "checkpoints know which",
           "TOPIC")
      ->excludes("--data");
  group.add("--group", o.group,
            "Consumer group: train on what it has not done, and mark that as done at the end",
            "NAME");
  group.add("--test-data", o.test_data,
            "What to test on; else what is called test… or val in --data, else a tenth of it",
            "PATH");
  group.add("--format", o.format, "Format of the data", "NAME")->check(data_format());
  group.add("--text-columns", o.text_columns,
            "Of tables: the columns of the text, by name or number, separated by commas", "NAMES");
  group.add("--label-column", o.label_column, "Of tables: the column of the label", "NAME");
  group
      .add("--success-file", o.success_file,
           "Whether folders must have _SUCCESS; auto: those of Spark and Hadoop; but for no, also "
           "all parts that say how many they are",
           "WHEN")
      ->check(CLI::IsMember({"auto", "yes", "no"}));
  group.add("--data-workers", o.data_workers, "Threads of each rank that decode images", "N");
  group.add("--prefetch", o.prefetch, "Batches that they are ahead", "N");
  group.add("--cache-megabytes", o.cache_megabytes,
            "Records of images that each rank keeps in memory", "N");
  group.add("--shuffle-buffer", o.shuffle_buffer,
            "Shuffle within windows of so many samples, to read in sequence; 0: among all", "N");
  group.flag("--skip-damaged", o.skip_damaged,
             "Leave damaged records out, count and report them, instead of ending with an error");
}

// Configurations of several recipes, and of an earlier Sullae, may have it, as long as it says
// nothing.
void leave_out(CLI::Option& option, const train::Recipe& recipe) {
  const auto check = [&option, name = recipe.name()](const std::string& text) {
    if (text == option.get_default_str()) return std::string();
    // CLI11 would not say of which option it is, since it is hidden.
    throw CLI::ConversionError("--" + option.get_lnames().front() + ": means nothing to " + name,
                               CLI::ExitCodes::ConversionError);
  };
  option.group("")->check(CLI::Validator(check, ""));
  // Help would name what it does not show.
  for (CLI::Option* const other : option.get_excludes()) other->remove_excludes(&option);
}

void declare_course(CLI::App& app, RecipeOptions& o) {
  Group group(app, "Course");
  group.add("--epochs", o.epochs, "Times through the training data", "N");
  group.add("--batch-size", o.batch_size,
            "Samples a step, over all ranks together; ranks may have uneven parts", "N");
  group.flag(
      "--scale-with-ranks", o.scale_with_ranks,
      "--batch-size and --lr are those of one rank: multiply both by the number of ranks that "
      "divide samples");
  group.add("--accumulation-steps", o.accumulation_steps,
            "Divide a rank's batch into so many parts, one after the other, to save memory", "N");
  group.add(
      "--init-from", o.init_from,
      "Begin with the weights, words and classes of a model: a checkpoint, a --checkpoint-dir, "
      "or a model's folder in a repository",
      "MODEL");
  group.add("--max-steps", o.max_steps, "End after this many steps; 0 trains all epochs", "N");
  group.add("--seed", o.seed, "Seed of weights, order, augmentation and dropout", "N");
}

void declare_optimizer(CLI::App& app, RecipeOptions& o) {
  Group group(app, "Optimizer");
  group.add("--optimizer", o.optimizer, "Optimizer", "NAME")
      ->check(CLI::IsMember(train::optimizer_names()));
  group.add("--momentum", o.momentum, "Momentum of sgd and lars", "X");
  group.flag("--nesterov", o.nesterov, "Nesterov momentum");
  group.add("--beta1", o.beta1, "Of adam, adamw and lamb", "X");
  group.add("--beta2", o.beta2, "Of adam, adamw and lamb", "X");
  group.add("--trust-coefficient", o.trust_coefficient, "Of lars", "X");
  group.add(
      "--weight-decay", o.weight_decay,
      "L2 penalty of sgd and adam, decoupled decay of adamw and lamb; not of biases and norms",
      "X");
  group.flag("--decay-all", o.decay_all, "Decay biases and norms too (lars and lamb never do)");
  group.add("--label-smoothing", o.label_smoothing, "Part of the target spread over all classes",
            "X");
  group.add("--clip-norm", o.clip_norm, "Scale gradients down to this norm; 0 leaves them", "X");
}

void declare_learning_rate(CLI::App& app, RecipeOptions& o) {
  Group group(app, "Learning rate");
  group.add("--lr", o.lr, "Learning rate", "X");
  group
      .add("--lr-schedule", o.lr_schedule,
           "Its course; linear, cosine and polynomial fall to --end-lr", "NAME")
      ->check(CLI::IsMember(train::schedule_names()));
  group.add("--warmup-epochs", o.warmup_epochs, "Rise linearly to --lr at first", "X");
  group.add("--warmup-lr", o.warmup_lr, "Where the rise starts", "X");
  group.add("--end-lr", o.end_lr, "Where the fall ends", "X");
  group.add("--lr-power", o.lr_power, "Degree of polynomial", "X");
  group.add("--lr-steps", o.lr_steps, "Of step: the epochs, as in 30,60,80", "LIST");
  group.add("--lr-gamma", o.lr_gamma, "Of step: the factor at each of them", "X");
}

void declare_parallelism(CLI::App& app, RecipeOptions& o) {
  Group device(app, "Device");
  device
      .add("--device", o.device,
           "cpu; cuda: a GPU a rank, by its place on its host; auto: a GPU where there is one and "
           "this way of training can use it",
           "NAME")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  Group precision(app, "Precision");
  precision
      .add("--precision", o.precision,
           "What the model computes in; weights are kept in float32. float16 needs a GPU", "TYPE")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  precision.add("--loss-scale", o.loss_scale, "Factor on the loss: dynamic, or a number", "X");
  precision
      .add("--allreduce-precision", o.allreduce_precision,
           "What gradients are averaged in: the same as they were computed in, or float32", "TYPE")
      ->check(CLI::IsMember({"same", "float32"}));
  precision.flag("--channels-last", o.channels_last,
                 "Convolutions with the channels last in memory: for GPUs, in 16 bits above all");
  Group group(app, "Parallelism");
  group.add("--compression", o.compression,
            "How gradients travel: none, float16, bfloat16, or topk:FRACTION of them", "NAME");
  group.negative_flag("--no-overlap", o.overlap,
                      "Reduce gradients after backward instead of during it, to compare");
  group.add("--shard", o.shard,
            "none; optimizer: each rank keeps its part of the optimizer's state; gradients: and of "
            "the gradients; parameters: and of the parameters, which come when their layer runs "
            "(transformer, gpt)",
            "WHAT");
  group.add(
      "--mesh", o.mesh,
      "Ranks as a grid, as dp=2,pp=2,tp=2: pp ranks have layers one behind the other, through "
      "which the parts of a step go (--accumulation-steps), tp ranks have parts of each "
      "layer, and dp ranks divide the samples; dp may be left out. With --shard dp ranks "
      "divide the optimizer of their parts; --shard parameters goes with tp, and with "
      "dp=2,shard=4: four ranks each have the parameters together, and twice (transformer, gpt)",
      "DIMENSIONS");
  group.add("--stages-per-rank", o.stages_per_rank,
            "With pp in --mesh: each rank has so many stages of the model, between others' "
            "(interleaved): it waits less, and sends more",
            "N");
  group.add("--ps-mode", o.ps_mode,
            "What is on parameter servers (sullae run --ps): ps: everything; ps-sparse: tables of "
            "words' vectors, of which a step needs few rows",
            "MODE");
  group.flag("--sync-batch-norm", o.sync_batch_norm,
             "Batch norms over all ranks together (resnet)");
  group.add("--scale-up", o.scale_up,
            "Replicas of the model in each rank, which divide its batch and its threads", "N");
  group.add(
      "--local-sgd", o.local_sgd,
      "0: average gradients at every step; a number of steps, or epoch: step apart and average "
      "weights and moments that often, and before checkpoints",
      "N");
}

void declare_output(CLI::App& app, RecipeOptions& o) {
  Group checkpoints(app, "Checkpoints");
  checkpoints.add("--checkpoint-dir", o.checkpoint_dir, "Write a checkpoint here after each epoch",
                  "DIR");
  checkpoints.add("--checkpoint-steps", o.checkpoint_steps, "And after each so many steps; 0: not",
                  "N");
  checkpoints.add("--keep-checkpoints", o.keep_checkpoints,
                  "How many to keep; the best one is kept too", "N");
  checkpoints.flag("--resume", o.resume,
                   "Go on after the newest whole checkpoint in --checkpoint-dir");
  checkpoints.add("--export", o.export_dir,
                  "Put the trained model into this model repository, as its next version, for "
                  "`sullae serve`; also in a store, s3://… or webhdfs://…",
                  "DIR");
  checkpoints.add("--export-name", o.export_name, "The model's name there; by default the recipe's",
                  "NAME");
  Group group(app, "Seeing");
  group.add("--run-dir", o.run_dir,
            "Keep this run's curves, settings and end in this folder; `sullae dashboard` shows it",
            "DIR");
  group.add("--report", o.report,
            "Write the results here, as JSON, and beside it as a page (.html)", "FILE");
  group.add("--tensorboard-dir", o.tensorboard_dir, "Write TensorBoard's event files here", "DIR");
  group.add("--metrics-file", o.metrics_file,
            "Keep metrics for Prometheus here (node_exporter's textfile collector)", "FILE");
  group
      .add("--log-interval", o.log_interval,
           "Steps between points of curves, and between progress lines where the output is no "
           "terminal",
           "N")
      ->check(positive_integer());
}

}  // namespace

void declare_train_options(CLI::App& app, RecipeOptions& options, const train::Recipe& recipe) {
  declare_data(app, options);
  for (const auto& flag : recipe.left_out_options())
    leave_out(*app.get_option("--" + flag), recipe);
  declare_course(app, options);
  declare_optimizer(app, options);
  declare_learning_rate(app, options);
  declare_parallelism(app, options);
  declare_output(app, options);
  Group own(app, "Options of " + recipe.name());
  for (const auto& extra : recipe.extra_options()) {
    double& value = options.extra[extra.flag] = extra.value;
    own.add(("--" + extra.flag).c_str(), value, extra.help, "X")
        ->check(number(Zero::allowed))
        ->each([&options, flag = extra.flag](const std::string&) { options.given.insert(flag); });
  }
}

}  // namespace sullae::cli
