#include "predict/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/tools/work.h"
#include "predict/description.h"
#include "predict/names.h"
#include "predict/open_model.h"
#include "predict/output_folder.h"
#include "predict/part.h"
#include "storage/storage.h"
#include "sullae/error.h"
#include "torch/agreement.h"
#include "torch/broadcast_text.h"

namespace sullae::predict {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string name_of_column(std::string_view feature) {
  if (feature.starts_with(data::feature::kColumn))
    feature.remove_prefix(data::feature::kColumn.size());
  return std::string(feature);
}

// Where neither the set nor any of the first samples has one.
void check_columns(const PredictOptions& options, const data::Dataset& set) {
  constexpr std::size_t kLookedAt = 1000;
  std::set<std::string> names;
  for (const auto& type : set.feature_types()) names.insert(name_of_column(type.name));
  const auto missing = [&] {
    return std::ranges::find_if(options.columns,
                                [&](const auto& column) { return !names.contains(column); });
  };
  bool any = false;
  for (std::size_t i = 0; i < std::min(kLookedAt, set.size()); ++i) {
    if (missing() == options.columns.end()) return;
    try {
      for (const auto& [name, feature] : set.read(i).features) names.insert(name_of_column(name));
      any = true;
    } catch (const data::DamagedRecord&) {
      continue;  // as whoever predicts is told
    }
  }
  if (any && missing() != options.columns.end())
    throw InputError(fmt::format("--columns: samples have no '{}': expected some of {}", *missing(),
                                 fmt::join(names, ", ")));
}

void check_classes(const PredictOptions& options, const data::Dataset& set,
                   const serve::Model& model) {
  if (!options.labels) return;
  const auto labels = model.codec().labels();
  if (labels.empty())
    throw InputError("--labels: the model has no classes, which could be compared");
  for (const auto& name : set.classes()) {
    if (std::ranges::find(labels, name) == labels.end())
      throw InputError(fmt::format(
          "--labels: the data have '{}', which is none of the model's {} classes ({}{})", name,
          labels.size(), fmt::join(labels | std::views::take(10), ", "),
          labels.size() > 10 ? ", …" : ""));
  }
}

void check(const PredictOptions& options, const data::Dataset& set, const OpenModel& opened) {
  constexpr std::size_t kMostParts = 100'000;
  if (set.size() == 0) throw InputError("--data: there are no samples");
  if ((set.size() + options.rows_per_file - 1) / options.rows_per_file > kMostParts)
    throw InputError(fmt::format("--rows-per-file {}: {} samples would be more than {} files",
                                 options.rows_per_file, set.size(), kMostParts));
  check_names(options, opened.output_names(), {kRowColumn});
  check_columns(options, set);
  check_classes(options, set, opened.model);
  const auto whole = [](const fs::path& path) {
    std::error_code error;
    return storage::is_remote(path) ? storage::absolute(path) : fs::weakly_canonical(path, error);
  };
  for (const auto& path : options.data) {
    const auto folder = whole(path);
    if (storage::is_folder(path) &&
        std::ranges::mismatch(folder, whole(options.output)).in1 == folder.end())
      throw InputError(fmt::format("--output {}: is in {}, which is read: expected another folder",
                                   options.output.string(), path.string()));
  }
  data::check_not_read(options.data, options.output);
}

// The same for all parts.
std::vector<data::FeatureType> column_types(const PredictOptions& options,
                                            const data::Dataset& set) {
  if (options.columns.empty()) return {};
  const bool has_types = options.format == "parquet";
  auto types = has_types ? data::parquet_columns(set) : set.feature_types();
  // A kept column before a feature of its name.
  std::ranges::stable_partition(types, [](const data::FeatureType& type) {
    return type.name.starts_with(data::feature::kColumn);
  });
  for (auto& type : types) type.name = name_of_column(type.name);
  return types;
}

// On rank 0; what it gives, or throws, all are told.
json ask_rank_0(const World& world, const std::function<json()>& what) {
  std::string answer;
  on_root(world, 0, [&] { answer = what().dump(); });
  return json::parse(broadcast_text(std::move(answer), 0, world));
}

class Run {
 public:
  Run(const PredictOptions& options, const World& world, const data::Dataset& set,
      const OpenModel& opened)
      : options_(options),
        world_(world),
        set_(set),
        parts_((set.size() + options.rows_per_file - 1) / options.rows_per_file),
        folder_(options.output, options.format, parts_),
        predictor_(opened.model, set, options),
        outputs_(opened.model.codec().outputs()),
        column_types_(column_types(options, set)) {}

  Predicted run(const std::function<json()>& describe, const ShowProgress& show) {
    const std::vector<std::size_t> missing = ask_rank_0(world_, [&] {
      described_ = describe();
      return json(folder_.open(described_, options_.overwrite));
    });
    const auto start = Clock::now();
    std::size_t rows = 0;
    std::vector<std::size_t> own;
    // Neighbours, which may be of one row group of what is read.
    const auto ranks = static_cast<std::size_t>(world_.size());
    const auto rank = static_cast<std::size_t>(world_.rank());
    for (std::size_t i = missing.size() * rank / ranks; i < missing.size() * (rank + 1) / ranks;
         ++i)
      own.push_back(missing[i]);
    std::size_t total = 0;
    for (const std::size_t part : own) total += end_of(part) - begin_of(part);
    show(0, total);
    for (const std::size_t part : own) {
      do_part(part, [&](std::size_t done) { show(rows + done, total); });
      rows += end_of(part) - begin_of(part);
      show(rows, total);
    }
    auto all_rows = static_cast<std::int64_t>(rows);
    world_.allreduce(&all_rows, &all_rows, 1, DataType::int64);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Predicted predicted = complete();
    predicted.found = parts_ - missing.size();
    if (all_rows > 0) predicted.rows_per_second = static_cast<double>(all_rows) / seconds;
    return predicted;
  }

 private:
  std::size_t begin_of(std::size_t part) const { return part * options_.rows_per_file; }
  std::size_t end_of(std::size_t part) const {
    return std::min(set_.size(), (part + 1) * options_.rows_per_file);
  }

  void do_part(std::size_t part, const std::function<void(std::size_t)>& show) {
    auto writer = make_row_writer(options_.format, folder_.part(part),
                                  {.columns = options_.columns,
                                   .outputs = options_.outputs,
                                   .known_outputs = outputs_,
                                   .column_types = column_types_});
    // The part is there when what was seen of it is.
    const auto seen = predictor_.predict(begin_of(part), end_of(part), *writer, show);
    json note = {{"rows", seen.rows}, {"damaged", seen.damaged}};
    if (seen.confusion) note["confusion"] = seen.confusion->counts();
    folder_.note(part, note);
    writer->close();
  }

  // Of what all runs have noted.
  Predicted complete() {
    const json all = ask_rank_0(world_, [&] {
      if (const auto file = changed_file(options_.data, described_); !file.empty())
        throw Error(fmt::format(
            "--output {}: {} has changed while it was read, so there is no _SUCCESS: predict it "
            "again with --overwrite",
            options_.output.string(), file));
      json sum = {{"rows", 0}, {"damaged", 0}};
      std::optional<Confusion> confusion = predictor_.no_confusion();
      for (std::size_t part = 0; part < parts_; ++part) {
        const json note = folder_.noted(part).value();
        for (const char* what : {"rows", "damaged"})
          sum[what] = sum[what].get<std::size_t>() + note.at(what).get<std::size_t>();
        if (confusion) confusion->add(note.at("confusion"));
      }
      if (sum["rows"] == 0)
        throw InputError(fmt::format(
            "--data: all {} samples are damaged: there is nothing to predict, and no _SUCCESS",
            sum["damaged"].get<std::size_t>()));
      if (confusion) {
        sum["confusion"] = confusion->counts();
        storage::write_file(folder_.report("json"), confusion->to_json().dump(2) + '\n');
        write_page(folder_.report("html"), *confusion,
                   fmt::format("{} on {}", options_.model.filename().string(),
                               fmt::join(names_of(options_.data), ", ")));
      }
      folder_.complete();
      return sum;
    });
    Predicted predicted{.rows = all.at("rows"), .damaged = all.at("damaged"), .files = parts_};
    predicted.confusion = predictor_.no_confusion();
    if (predicted.confusion) predicted.confusion->add(all.at("confusion"));
    return predicted;
  }

  static std::vector<std::string> names_of(const std::vector<fs::path>& files) {
    std::vector<std::string> names;
    for (const fs::path& file : files) names.push_back(file.filename().string());
    return names;
  }

  const PredictOptions& options_;
  const World& world_;
  const data::Dataset& set_;
  std::size_t parts_;
  OutputFolder folder_;
  PartPredictor predictor_;
  std::vector<serve::TensorSignature> outputs_;
  std::vector<data::FeatureType> column_types_;
  json described_;  // on rank 0
};

}  // namespace

Predicted predict(const PredictOptions& options, const World& world, const ShowProgress& show) {
  const OpenModel opened(options);

  PredictOptions own = options;
  data::DamageLog damage(options.skip_damaged);
  own.reading.damage = &damage;
  own.reading.unlabelled = !options.labels;
  own.reading.kept_columns = options.columns;
  const auto set = data::open_dataset(options.data, own.reading);
  check(own, *set, opened);
  const std::size_t torn = damage.count();
  if (own.batch_size == 0) own.batch_size = static_cast<std::size_t>(opened.model.max_batch_size());
  Predicted predicted =
      Run(own, world, *set, opened)
          .run([&] { return describe_run(own, opened.found, opened.config, *set); }, show);
  predicted.torn_files = torn;
  return predicted;
}

}  // namespace sullae::predict
