#include <fmt/format.h>

#include <thread>

#include "base/counted.h"
#include "cli/commands.h"
#include "cli/other_commands.h"
#include "cli/progress_bar.h"
#include "cli/reading_options.h"
#include "cli/validators.h"
#include "data/tools/convert.h"
#include "data/tools/inspect.h"
#include "data/tools/work.h"
#include "kafka/window.h"
#include "storage/storage.h"
#include "sullae/data.h"
#include "sullae/sullae.h"
#include "torch/agreement.h"
#include "torch/broadcast_text.h"

namespace sullae::cli {
namespace {

class DataCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* app = program.add_subcommand("data", description_of("data"));
    app->require_subcommand(1);
    app->footer(
        "Reads csv, tsv, jsonl, text, idx, tfrecord, parquet, arrow, folders of images and tar "
        "archives, "
        "also "
        "compressed (.gz).\n"
        "Examples:\n"
        "  sullae data inspect images.tar\n"
        "  sullae data convert photos/ --output records --files 128\n"
        "  sullae run -np 8 -H node1:4,node2:4 sullae data convert 'part-*' --output "
        "/shared/records\n"
        "  sullae data verify records");
    convert_ =
        add(*app, "convert", "Write a data set as TFRecord or Parquet files or tar archives");
    declare_writing(*convert_);
    convert_
        ->add_option("--to", writing_.format, "tfrecord, parquet, or tar in the WebDataset layout")
        ->check(CLI::IsMember(data::written_formats()))
        ->capture_default_str();
    shard_ =
        add(*app, "shard", "Divide a data set anew into files of equal size, in the same format");
    declare_writing(*shard_);
    inspect_ = add(*app, "inspect", "Show what a data set holds");
    verify_ = add(*app, "verify", "Read all of a data set, with checksums, and decode all images");
    return app;
  }

  int run() override {
    const World world = init();
    const int code = run_in(world);
    shutdown();
    return code;
  }

 private:
  CLI::App* add(CLI::App& parent, const char* name, const char* help) {
    CLI::App* app = parent.add_subcommand(name, help);
    app->add_option("PATH", paths_, "Files, folders or patterns, or a topic of Kafka")->required();
    add_reading_options(*app, "--format", reading_);
    app->add_flag("--unlabelled", reading_.unlabelled, "Samples without a label will do");
    app->add_option("--workers", workers_, "Threads of each rank")
        ->check(positive_integer())
        ->capture_default_str()
        ->type_name("N");
    app->add_flag(
        "--skip-damaged", skip_damaged_,
        "Leave damaged records out, count and report them, instead of ending with an error");
    return app;
  }

  void declare_writing(CLI::App& app) {
    app.add_option("--output", writing_.output, "Folder to write to")->required()->type_name("DIR");
    app.add_option("--files", writing_.files, "Number of files; 0: about 128 MiB each")
        ->check(integer_from(0))
        ->capture_default_str()
        ->type_name("N");
    app.add_flag("--overwrite", writing_.overwrite, "Remove the data set that is there");
    app.add_flag(
        "--compress", writing_.compress,
        "Compress with gzip, and such files are read as a whole; parquet with zstd instead of "
        "snappy");
    app.add_flag("--shuffle", writing_.order.shuffle, "Write the samples in random order");
    app.add_option("--seed", writing_.order.seed, "Seed of the order")
        ->capture_default_str()
        ->type_name("N");
  }

  int run_in(const World& world) {
    // Verifying goes on after damage, to find all of it.
    data::DamageLog damage(skip_damaged_ || verify_->parsed());
    reading_.damage = &damage;
    settle_topics(world);
    const auto set = data::open_dataset({paths_.begin(), paths_.end()}, reading_);
    // All ranks open all files, and read some of the records.
    if (world.rank() > 0) met_by_all_ = damage.count();
    if (convert_->parsed() || shard_->parsed()) return write(*set, damage, world);
    return show(*set, damage, world);
  }

  // All ranks read the messages that there are now.
  void settle_topics(const World& world) {
    for (auto& path : paths_) {
      if (!kafka::is_address(path)) continue;
      on_root(world, 0, [&] {
        auto topic = kafka::parse_address(path);
        if (topic.window.empty()) topic.window = kafka::find_window(topic, "");
        if (topic.window.empty()) throw InputError(topic.name() + ": holds no messages");
        path = topic.to_string();
      });
      path = broadcast_text(path, 0, world);
      has_topic_ = true;
    }
  }

  int write(const data::Dataset& set, data::DamageLog& damage, const World& world) {
    if (shard_->parsed()) writing_.format = format_of_input();
    if (writing_.files == 0) writing_.files = usual_files(world);
    writing_.threads = workers_;
    writing_.decode = skip_damaged_;
    data::check_not_read({paths_.begin(), paths_.end()}, writing_.output);
    writing_.rank = world.rank();
    writing_.ranks = world.size();
    // Of this rank's files.
    const auto first_of = [&](int rank) {
      const auto file =
          writing_.files * static_cast<std::size_t>(rank) / static_cast<std::size_t>(world.size());
      return set.size() * file / writing_.files;
    };
    const std::size_t samples = first_of(world.rank() + 1) - first_of(world.rank());
    on_root(world, 0, [&] { data::prepare_output(set, writing_); });
    ProgressBar bar("writing", samples, world.rank() == 0);
    const auto done =
        data::convert(set, writing_, damage, [&](std::size_t count) { bar.show(count); });
    std::int64_t sums[] = {static_cast<std::int64_t>(done.samples),
                           static_cast<std::int64_t>(done.files),
                           static_cast<std::int64_t>(done.bytes),
                           static_cast<std::int64_t>(damage.count() - met_by_all_)};
    world.allreduce(sums, sums, 4, DataType::int64);
    if (world.rank() == 0) {
      fmt::print("wrote {} samples to {} in {} ({:.1f} MB){}\n", sums[0], counted(sums[1], "file"),
                 writing_.output.string(), static_cast<double>(sums[2]) / 1e6,
                 sums[3] > 0 ? fmt::format("; left out {} damaged records", sums[3]) : "");
    }
    return 0;
  }

  // What was written by `convert` or comes in that form.
  std::string format_of_input() const {
    if (has_topic_) return "tfrecord";
    const auto files = data::find_part_files({paths_.begin(), paths_.end()});
    const std::string name = files.front().filename().string();
    for (const auto& format : data::written_formats()) {
      if (name.find('.' + format) != std::string::npos) return format;
    }
    return "tfrecord";
  }

  // The same on every rank.
  std::size_t usual_files(const World& world) const {
    if (has_topic_) return static_cast<std::size_t>(world.size());
    constexpr std::uintmax_t kUsual = std::uintmax_t{128} << 20;
    std::uintmax_t bytes = 0;
    for (const auto& path : data::find_part_files({paths_.begin(), paths_.end()})) {
      const auto status = storage::status(path).value();
      bytes += status.bytes;
      if (!status.is_folder) continue;
      storage::for_each_file(path, [&](const auto&, const auto& its) { bytes += its.bytes; });
    }
    return std::max<std::size_t>(static_cast<std::size_t>((bytes + kUsual - 1) / kUsual),
                                 static_cast<std::size_t>(world.size()));
  }

  int show(const data::Dataset& set, data::DamageLog& damage, const World& world) {
    const bool verifying = verify_->parsed();
    ProgressBar bar(verifying ? "verifying" : "reading",
                    set.size() / static_cast<std::size_t>(world.size()), world.rank() == 0);
    const auto seen = data::inspect(
        set,
        {.threads = workers_, .decode = verifying, .rank = world.rank(), .ranks = world.size()},
        damage, [&](std::size_t count) { bar.show(count); });
    std::int64_t damaged = static_cast<std::int64_t>(damage.count() - met_by_all_);
    std::int64_t samples = static_cast<std::int64_t>(seen.samples);
    world.allreduce(&damaged, &damaged, 1, DataType::int64);
    world.allreduce(&samples, &samples, 1, DataType::int64);
    if (world.rank() == 0) {
      if (verifying) {
        fmt::print("{} samples are whole, {} {} damaged\n", samples, damaged,
                   damaged == 1 ? "is" : "are");
      } else {
        print(set, seen, world);
      }
    }
    return verifying && damaged > 0 ? 1 : 0;
  }

  void print(const data::Dataset& set, const data::Inspection& seen, const World& world) const {
    if (has_topic_) fmt::print("messages  {}\n", paths_.front());
    fmt::print("samples   {}{}\n", set.size(),
               world.size() > 1 ? fmt::format(" (below: rank 0's {})", seen.samples) : "");
    if (seen.images > 0) {
      fmt::print("images    {} x {} to {} x {} pixels, {:.1f} KB each\n", seen.smallest_image[1],
                 seen.smallest_image[0], seen.largest_image[1], seen.largest_image[0],
                 static_cast<double>(seen.bytes) / 1e3 / static_cast<double>(seen.images));
    }
    fmt::print("features\n");
    for (const auto& [name, kinds] : seen.features) {
      for (const auto& [kind, count] : kinds) {
        fmt::print("  {:<22} {:<6} {}\n", name, kind,
                   count == seen.samples ? "in all" : fmt::format("in {}", count));
      }
    }
    if (seen.labels.empty()) return;
    fmt::print("classes   {}\n", std::max(set.classes().size(), seen.labels.size()));
    constexpr std::size_t kShown = 20;
    std::size_t shown = 0;
    for (const auto& [label, count] : seen.labels) {
      if (shown++ == kShown) {
        fmt::print("  ... {} more\n", seen.labels.size() - kShown);
        break;
      }
      const auto index = static_cast<std::size_t>(label);
      const bool named = label >= 0 && index < set.classes().size();
      fmt::print("  {:<4} {:<17} {}\n", label, named ? set.classes()[index] : "", count);
    }
  }

  CLI::App* convert_ = nullptr;
  CLI::App* shard_ = nullptr;
  CLI::App* inspect_ = nullptr;
  CLI::App* verify_ = nullptr;
  std::vector<std::string> paths_;
  data::DatasetOptions reading_;
  data::ConvertOptions writing_{.files = 0};
  bool skip_damaged_ = false;
  std::size_t met_by_all_ = 0;  // damage in files, which rank 0 counts
  bool has_topic_ = false;
  std::size_t workers_ = std::max(1U, std::thread::hardware_concurrency());
};

}  // namespace

std::unique_ptr<Command> make_data_command() { return std::make_unique<DataCommand>(); }

}  // namespace sullae::cli
