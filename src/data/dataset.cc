#include "sullae/data/dataset.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/descriptors.h"
#include "base/hash.h"
#include "base/log.h"
#include "data/decorators.h"
#include "data/format/format.h"
#include "data/format/records_set.h"
#include "data/parts.h"
#include "data/record/byte_file.h"
#include "data/record/input_file.h"
#include "data/record/topic_records.h"
#include "data/table/labels.h"
#include "storage/storage.h"

namespace sullae::data {
namespace {

namespace fs = std::filesystem;

// Also those of folders that are partitions.
void add_files(const fs::path& folder, std::vector<Part>& files) {
  for (const auto& entry : storage::list(folder)) {
    const fs::path path = folder / entry.name;
    if (!is_part_file(path)) continue;
    if (entry.status.is_file) {
      files.push_back({path, entry.status});
    } else if (entry.status.is_folder && entry.name.find('=') != std::string::npos) {
      add_files(path, files);
    }
  }
}

void add_if_there(const fs::path& path, std::vector<Part>& parts) {
  if (auto status = storage::status(path)) parts.push_back({path, *std::move(status)});
}

std::vector<Part> expand_here(const fs::path& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<Part> parts;
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    // Who opens a link to nothing is told.
    const fs::path path(found.gl_pathv[i]);
    parts.push_back({path, storage::status(path).value_or(storage::Status())});
  }
  ::globfree(&found);
  return parts;  // sorted by glob
}

bool is_pattern(const std::string& name) { return name.find_first_of("*?[") != std::string::npos; }

// A name after the other, with those that match in the place of each pattern.
std::vector<Part> expand_in_store(const fs::path& pattern) {
  std::vector<Part> parts;
  if (!is_pattern(pattern.native())) {
    add_if_there(pattern, parts);
    return parts;
  }
  const std::string name = pattern.filename().string();
  for (const auto& [folder, status] : expand_in_store(pattern.parent_path())) {
    if (!status.is_folder) continue;
    if (!is_pattern(name)) {
      add_if_there(folder / name, parts);
      continue;
    }
    for (const auto& entry : storage::list(folder)) {
      if (::fnmatch(name.c_str(), entry.name.c_str(), FNM_PERIOD) == 0)
        parts.push_back({folder / entry.name, entry.status});
    }
  }
  return parts;
}

std::vector<Part> expand(const fs::path& pattern) {
  auto parts = storage::is_remote(pattern) ? expand_in_store(pattern) : expand_here(pattern);
  std::erase_if(parts, [](const Part& part) { return !is_part_file(part.path); });
  return parts;
}

const Format* recognise(const Part& part) {
  std::string start;
  constexpr std::size_t kStart = 1024;
  if (!part.status.is_folder) start = data::read_start(part.path, part.status, kStart);
  const auto found = std::ranges::find_if(
      formats(), [&](const Format& format) { return format.recognises(part.path, start); });
  return found == formats().end() ? nullptr : &*found;
}

const Format& format_of(const Part& part, const std::string& name) {
  const auto names = fmt::format("{}", fmt::join(dataset_formats(), ", "));
  if (name == "auto") {
    if (const Format* format = recognise(part)) return *format;
    throw InputError(
        fmt::format("{}: is of no known format, expected one of {}", part.path.string(), names));
  }
  const auto found = std::ranges::find(formats(), name, &Format::name);
  if (found == formats().end())
    throw InputError(
        fmt::format("format '{}' is not known, expected auto or one of {}", name, names));
  return *found;
}

// Patterns as what matches them.
std::vector<Part> expand_all(const std::vector<fs::path>& paths) {
  std::vector<Part> all;
  for (const auto& path : paths) {
    const std::size_t before = all.size();
    add_if_there(path, all);
    if (all.size() > before) continue;
    auto found = expand(path);
    if (found.empty())
      throw InputError(
          fmt::format("{}: there is no such file or folder, and no file matches it "
                      "as a pattern",
                      path.string()));
    std::ranges::move(found, std::back_inserter(all));
  }
  return all;
}

// A folder of images is opened as it is, one of part files is the same as its files.
std::vector<Part> files_of(const std::vector<Part>& parts) {
  std::vector<Part> files;
  for (const auto& part : parts) {
    if (!part.status.is_folder || recognise(part) != nullptr) {
      files.push_back(part);
      continue;
    }
    const std::size_t before = files.size();
    add_files(part.path, files);
    if (files.size() == before)
      throw InputError(fmt::format("{}: the folder holds no files of data", part.path.string()));
  }
  return files;
}

bool has_topic(const std::vector<fs::path>& paths) {
  return std::ranges::any_of(paths,
                             [](const fs::path& path) { return kafka::is_address(path.native()); });
}

// Ranks read the same messages, and a resumed run those that it had: not those that are there by
// now.
DatasetPtr open_topic(const std::vector<fs::path>& paths, const DatasetOptions& options) {
  const auto found = std::ranges::find_if(
      paths, [](const fs::path& path) { return kafka::is_address(path.native()); });
  const auto topic = kafka::parse_address(found->native());
  if (paths.size() > 1)
    throw InputError(
        fmt::format("{}: expected one topic, and no other data beside it", topic.name()));
  if (topic.window.empty())
    throw InputError(fmt::format(
        "{}: which messages is not said: expected --source, or the offsets as `sullae data inspect "
        "{}` prints them",
        topic.name(), topic.name()));
  return open_records(fetch_records(topic), options);
}

// Without features where it cannot be read: who reads it is told.
Example first_of(const Dataset& set) {
  if (set.size() == 0) return {};
  try {
    return set.read(0);
  } catch (const DamagedRecord&) {
    return {};
  }
}

// By what it says of itself.
bool has_label(const Dataset& set) {
  const Example first = first_of(set);
  return first.bytes(feature::kClass) != nullptr || first.label() != nullptr;
}

// What the numbers of a part without names stand for nobody knows where other parts have names of
// their own.
void check_named(const std::vector<DatasetPtr>& parts, const std::vector<Part>& files) {
  const auto named =
      std::ranges::find_if(parts, [](const auto& part) { return !part->classes().empty(); });
  if (named == parts.end()) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]->classes().empty() || first_of(*parts[i]).label() == nullptr) continue;
    throw InputError(fmt::format(
        "{}: its labels are numbers without names, while those of {} have names: expected a "
        "classes.txt beside it",
        files[i].path.string(),
        files[static_cast<std::size_t>(named - parts.begin())].path.string()));
  }
}

std::vector<std::string> union_of_classes(const std::vector<DatasetPtr>& parts) {
  if (parts.size() == 1) return parts.front()->classes();
  std::vector<std::string> classes;
  for (const auto& part : parts) {
    for (const auto& name : part->classes()) {
      if (std::ranges::find(classes, name) == classes.end()) classes.push_back(name);
    }
  }
  // Part files of one set usually have the same classes, in an order that means something.
  const bool same = std::ranges::all_of(
      parts, [&](const auto& part) { return part->classes().size() == classes.size(); });
  if (!same) std::ranges::sort(classes, LabelOrder());
  return classes;
}

// Columns that are asked for, and that some files do not have: none may be missing in all.
class LackingColumns {
 public:
  explicit LackingColumns(const std::vector<Part>& files) : files_(files), of_file_(files.size()) {}

  /// Null of a file that stands alone, which says itself what it has.
  std::set<std::string>* of(std::size_t file) {
    if (files_.size() == 1) return nullptr;
    of_file_[file].clear();  // it may be opened again
    return &of_file_[file];
  }
  void check() const {
    for (const auto& name : of_file_.front()) {
      if (std::ranges::all_of(of_file_, [&](const auto& names) { return names.contains(name); }))
        throw InputError(fmt::format("{}: has no column '{}', and no other of the {} files has",
                                     files_.front().path.string(), name, files_.size()));
    }
  }

 private:
  const std::vector<Part>& files_;
  std::vector<std::set<std::string>> of_file_;
};

}  // namespace

void DamageLog::report(const std::string& message) {
  if (!skip_) throw DamagedRecord(message);
  constexpr std::size_t kReported = 10;
  std::size_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    if (of_ == Of::set && !messages_.insert(fnv1a(message)).second) return;  // in an epoch before
    before = count_++;
  }
  if (before < kReported) log::warning("skipped: {}", message);
  if (before == kReported) log::warning("skipped more damaged records; the rest is only counted");
}

std::size_t DamageLog::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::set<std::uint64_t> DamageLog::records() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

const std::vector<std::string>& Dataset::classes() const {
  static const std::vector<std::string> none;
  return none;
}

bool is_part_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return !name.starts_with('.') && !name.starts_with('_') && !name.ends_with(".idx") &&
         !name.ends_with(".crc") && name != "classes.txt" &&
         name.find("labels-idx1") == std::string::npos;
}

std::vector<std::string> dataset_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.push_back(format.name);
  std::ranges::sort(names);
  return names;
}

std::vector<fs::path> find_part_files(const std::vector<fs::path>& paths) {
  if (has_topic(paths)) return paths;
  std::vector<fs::path> files;
  for (auto& part : files_of(expand_all(paths))) files.push_back(std::move(part.path));
  return files;
}

DatasetPtr open_dataset(const std::vector<fs::path>& paths, const DatasetOptions& options) {
  if (has_topic(paths)) return open_topic(paths, options);
  // Each part file stays open, of which there are commonly as many as the soft limit.
  allow_descriptors(kMostDescriptors);
  const auto given = expand_all(paths);
  check_success(given, options.success_file);
  auto files = files_of(given);
  check_numbered(given, files, options.success_file);
  if (files.size() > 1) std::erase_if(files, &is_empty_part);
  if (files.empty())
    throw InputError(paths.empty() ? "no data was given"
                                   : fmt::format("{}: holds no samples", paths.front().string()));
  const Format& format = format_of(files.front(), options.format);
  const auto decoded = std::make_shared<PieceCache>(options.decoded_bytes);
  Partitions partitions(files, options);
  LackingColumns lacking(files);
  const auto open = [&](std::size_t i) {
    return format.open(files[i].path, {partitions.rest(), decoded, lacking.of(i)});
  };
  DatasetPtr first = open(0);
  if (partitions.guesses_label() && has_label(*first)) {
    partitions.leave_label();
    first = open(0);
  }
  std::vector<DatasetPtr> parts = {partitions.add_to(first, 0)};
  for (std::size_t i = 1; i < files.size(); ++i) {
    const Format& other = format_of(files[i], options.format);
    if (other.name != format.name) {
      throw InputError(fmt::format(
          "{}: is of format {}, but {} is of format {}: expected one format",
          files[i].path.string(), other.name, files.front().path.string(), format.name));
    }
    parts.push_back(partitions.add_to(open(i), i));
  }
  lacking.check();
  auto classes = options.classes.empty() ? union_of_classes(parts) : options.classes;
  // Where labels are not asked for, they may be anything.
  if (!options.unlabelled) {
    if (options.classes.empty()) check_named(parts, files);
    for (auto& part : parts) part = renumber_labels(std::move(part), classes);
  }
  auto all = concatenate(std::move(parts));
  if (format.is_table && !options.unlabelled && options.classes.empty() &&
      classes_beside(files.front().path).empty())
    check_labels(files.front().path.string(), classes, all->size());
  return number_classes(std::move(all), std::move(classes));
}

}  // namespace sullae::data
