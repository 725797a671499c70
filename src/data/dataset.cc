#include "sullae/data/dataset.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "data/decorators.h"
#include "data/format/format.h"
#include "data/record/byte_file.h"
#include "data/record/input_file.h"

namespace sullae::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_part_file(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<fs::path> expand(const fs::path& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> files;
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    const fs::path path(found.gl_pathv[i]);
    if (is_part_file(path)) files.push_back(path);
  }
  ::globfree(&found);
  return files;  // sorted by glob
}

const Format* recognise(const fs::path& path) {
  std::string start;
  if (!fs::is_directory(path)) {
    start.resize(1024);
    start.resize(InputFile(path).read(start.data(), start.size()));
  }
  const auto found = std::ranges::find_if(
      formats(), [&](const Format& format) { return format.recognises(path, start); });
  return found == formats().end() ? nullptr : &*found;
}

const Format& format_of(const fs::path& path, const std::string& name) {
  const auto names = fmt::format("{}", fmt::join(dataset_formats(), ", "));
  if (name == "auto") {
    if (const Format* format = recognise(path)) return *format;
    throw InputError(
        fmt::format("{}: is of no known format, expected one of {}", path.string(), names));
  }
  const auto found = std::ranges::find(formats(), name, &Format::name);
  if (found == formats().end())
    throw InputError(
        fmt::format("format '{}' is not known, expected auto or one of {}", name, names));
  return *found;
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
  if (!same) std::ranges::sort(classes);
  return classes;
}

}  // namespace

void DamageLog::report(const std::string& message) {
  if (!skip_) throw DamagedRecord(message);
  constexpr std::size_t kReported = 10;
  const std::size_t before = count_++;
  if (before < kReported) log::warning("skipped: {}", message);
  if (before == kReported) log::warning("skipped more damaged records; the rest is only counted");
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
  std::vector<fs::path> files;
  for (const auto& path : paths) {
    if (fs::is_directory(path)) {
      // A folder of images is opened as it is, one of part files is the same as its files.
      const auto parts = files_in(path);
      const Format* format = recognise(path);
      if (format != nullptr) {
        files.push_back(path);
      } else if (parts.empty()) {
        throw InputError(fmt::format("{}: the folder holds no files of data", path.string()));
      } else {
        files.insert(files.end(), parts.begin(), parts.end());
      }
    } else if (fs::exists(path)) {
      files.push_back(path);
    } else {
      const auto found = expand(path);
      if (found.empty())
        throw InputError(
            fmt::format("{}: there is no such file or folder, and no file matches it "
                        "as a pattern",
                        path.string()));
      files.insert(files.end(), found.begin(), found.end());
    }
  }
  return files;
}

DatasetPtr open_dataset(const std::vector<fs::path>& paths, const DatasetOptions& options) {
  const Opening opening{options, std::make_shared<PieceCache>(options.decoded_bytes)};
  std::vector<DatasetPtr> parts;
  std::string first_format;
  fs::path first_file;
  for (const auto& file : find_part_files(paths)) {
    const Format& format = format_of(file, options.format);
    if (first_format.empty()) {
      first_format = format.name;
      first_file = file;
    } else if (format.name != first_format) {
      throw InputError(
          fmt::format("{}: is of format {}, but {} is of format {}: expected one format",
                      file.string(), format.name, first_file.string(), first_format));
    }
    parts.push_back(format.open(file, opening));
  }
  if (parts.empty()) throw InputError("no data was given");
  auto classes = options.classes.empty() ? union_of_classes(parts) : options.classes;
  return number_classes(concatenate(std::move(parts)), std::move(classes));
}

}  // namespace sullae::data
