#include "data/parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "base/number.h"
#include "base/percent.h"
#include "data/decorators.h"
#include "data/table/columns.h"
#include "data/table/labels.h"
#include "storage/storage.h"

namespace sullae::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuccess = "_SUCCESS";
constexpr const char* kNull = "__HIVE_DEFAULT_PARTITION__";

bool is_partition(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const auto at = name.find('=');
  return at != std::string::npos && at > 0;
}

// Spark's "part-00000-<uuid>-c000.snappy.parquet", Hadoop's "part-r-00000"; not
// "part-00000-of-00008", which says itself how many there are.
bool is_job_part(const fs::path& file) {
  static const std::regex pattern(R"(part-([mr]-)?\d{5,}(?!-of-)([-._].*)?)");
  return std::regex_match(file.filename().string(), pattern);
}

bool holds_job_parts(const fs::path& folder) {
  return std::ranges::any_of(storage::list(folder), [&](const storage::Entry& entry) {
    if (entry.name == "_temporary" || entry.name.starts_with("_started_")) return true;
    const fs::path path = folder / entry.name;
    return entry.status.is_folder ? is_partition(path) && holds_job_parts(path) : is_job_part(path);
  });
}

bool is_within(const fs::path& file, const std::set<fs::path>& folders) {
  for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
    if (folders.contains(folder)) return true;
    if (!is_partition(folder)) return false;
  }
}

bool has_success(const fs::path& path) {
  fs::path folder = storage::without_slash(storage::absolute(path));
  while (!storage::exists(folder / kSuccess)) {
    if (!is_partition(folder)) return false;
    folder = folder.parent_path();
  }
  return true;
}

// "7", "-12"; not "007", which is a text.
std::optional<std::int64_t> number_of(const std::string& text) {
  const auto number = number_in<std::int64_t>(text);
  return number && std::to_string(*number) == text ? number : std::nullopt;
}

std::vector<std::string> names_of(const Partition& partition) {
  std::vector<std::string> names;
  for (const auto& [name, value] : partition) names.push_back(name);
  return names;
}

class InPartition final : public Decorated {
 public:
  struct Value {
    std::string name;
    Feature feature;
    bool is_kept;
  };
  struct Class {
    std::optional<std::string> name;
    bool may_lack;
  };
  InPartition(DatasetPtr inner, std::vector<Value> values, std::optional<Class> own_class,
              const std::vector<std::string>& classes)
      : Decorated(std::move(inner)),
        values_(std::move(values)),
        class_(std::move(own_class)),
        classes_(class_ ? classes : Decorated::classes()) {}

  const std::vector<std::string>& classes() const override { return classes_; }
  Example read(std::size_t i) const override {
    Example example = inner().read(i);
    const bool is_text = example.bytes(feature::kText) != nullptr;
    for (const auto& value : values_) {
      if (value.is_kept) {
        example.features.insert_or_assign(std::string(feature::kColumn) + value.name,
                                          value.feature);
      } else if (!is_text && !feature::is_label(value.name)) {
        example.features.insert_or_assign(value.name, value.feature);
      }
    }
    if (!class_) return example;
    if (!class_->name && !class_->may_lack)
      throw DamagedRecord(fmt::format("{}: its label is empty", place(i)));
    example.features.erase(feature::kLabel);
    example.features.erase(feature::kTextLabel);
    example.features.erase(feature::kClass);
    if (class_->name) example.set(feature::kClass, *class_->name);
    return example;
  }

 private:
  std::vector<Value> values_;
  std::optional<Class> class_;
  std::vector<std::string> classes_;
};

}  // namespace

Partition partition_of(const fs::path& file) {
  Partition partition;
  for (fs::path folder = storage::absolute(file).parent_path(); is_partition(folder);
       folder = folder.parent_path()) {
    const std::string name = folder.filename().string();
    const auto at = name.find('=');
    const std::string value = name.substr(at + 1);
    partition.emplace_back(percent_decode(name.substr(0, at)),
                           value == kNull ? std::nullopt : std::optional(percent_decode(value)));
  }
  std::ranges::reverse(partition);
  return partition;
}

void check_success(const std::vector<Part>& parts, const std::string& success_file) {
  if (success_file != "auto" && success_file != "yes" && success_file != "no")
    throw InputError(fmt::format("success file '{}': expected auto, yes or no", success_file));
  if (success_file == "no") return;
  for (const auto& [path, status] : parts) {
    if (!status.is_folder || has_success(path)) continue;
    if (success_file == "auto" && !holds_job_parts(path)) continue;
    throw InputError(
        fmt::format("{}: has no _SUCCESS, which Spark and Hadoop write at the end: the job that "
                    "writes it has not "
                    "ended, or has failed; read it nevertheless with --success-file no",
                    path.string()));
  }
}

void check_numbered(const std::vector<Part>& parts, const std::vector<Part>& files,
                    const std::string& success_file) {
  if (success_file == "no") return;
  std::set<fs::path> folders;
  for (const auto& [path, status] : parts) {
    if (status.is_folder) folders.insert(storage::without_slash(path));
  }
  // What stands behind the numbers may differ from file to file, as a hash of each does.
  static const std::regex pattern(R"((.*-)(\d{5,9})(-of-(\d{5,9})).*)");
  struct Numbered {
    std::string before;
    std::string after;
    std::size_t count;
    std::set<std::size_t> numbers;
  };
  std::map<std::string, Numbered> sets;
  for (const auto& [path, status] : files) {
    std::smatch match;
    const std::string name = path.filename().string();
    if (status.is_folder || !is_within(path, folders) || !std::regex_match(name, match, pattern))
      continue;
    const std::string before = path.parent_path() / match.str(1);
    auto& set = sets[before + match.str(3)];
    set.before = before;
    set.after = match.str(3);
    set.count = std::stoul(match.str(4));
    set.numbers.insert(std::stoul(match.str(2)));
  }
  for (const auto& [name, set] : sets) {
    // Some count from 1.
    const std::size_t first = set.numbers.contains(set.count) && !set.numbers.contains(0) ? 1 : 0;
    for (std::size_t i = first; i < first + set.count; ++i) {
      if (set.numbers.contains(i)) continue;
      throw InputError(fmt::format(
          "{0}{1:05}{2}…: is missing, and {3} of {4} files are there: what writes them has not "
          "ended, or has failed; read them nevertheless with --success-file no",
          set.before, i, set.after, set.numbers.size(), set.count));
    }
  }
}

bool is_empty_part(const Part& part) {
  return !part.status.is_folder && part.status.bytes == 0 && is_job_part(part.path);
}

Partitions::Partitions(const std::vector<Part>& files, const DatasetOptions& options)
    : rest_(options), is_guess_(options.label_column.empty()), unlabelled_(options.unlabelled) {
  for (const auto& file : files) values_.push_back(partition_of(file.path));
  check_columns(files);
  if (values_.empty()) return;
  for (const auto& name : names_of(values_.front())) columns_.push_back({.name = name});
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto& column = columns_[i];
    column.is_kept = std::erase(rest_.kept_columns, column.name) > 0;
    if (options.label_column == column.name || (is_guess_ && is_label_name(column.name)))
      label_ = i;
    for (const auto& partition : values_) {
      const auto& value = partition[i].second;
      column.is_number = column.is_number && (!value || number_of(*value));
    }
  }
  if (!label_) return;
  rest_.label_column.clear();
  rest_.unlabelled = true;
  Labels labels;
  for (const auto& partition : values_) {
    if (partition[*label_].second) labels.insert(*partition[*label_].second);
  }
  classes_.assign(labels.begin(), labels.end());
}

void Partitions::check_columns(const std::vector<Part>& files) const {
  for (std::size_t i = 1; i < values_.size(); ++i) {
    const auto first = names_of(values_.front());
    const auto own = names_of(values_[i]);
    if (own == first) continue;
    throw InputError(fmt::format(
        "{}: its folders have the columns {}, and those of {} have {}: expected the same",
        files[i].path.string(), own, files.front().path.string(), first));
  }
}

void Partitions::leave_label() {
  label_.reset();
  rest_.unlabelled = unlabelled_;
}

DatasetPtr Partitions::add_to(DatasetPtr set, std::size_t file) const {
  if (columns_.empty()) return set;
  std::vector<InPartition::Value> values;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto& [name, is_number, is_kept] = columns_[i];
    const auto& value = values_[file][i].second;
    if (!value || (i == label_ && !is_kept)) continue;
    values.push_back(
        {.name = name,
         .feature = is_number ? Feature(Values{*number_of(*value)}) : Feature(Values{*value}),
         .is_kept = is_kept});
  }
  std::optional<InPartition::Class> own_class;
  if (label_) own_class = {.name = values_[file][*label_].second, .may_lack = unlabelled_};
  return std::make_shared<InPartition>(std::move(set), std::move(values), std::move(own_class),
                                       classes_);
}

}  // namespace sullae::data
