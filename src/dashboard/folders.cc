#include "dashboard/folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/file.h"
#include "repository/publish.h"
#include "runs/record.h"

namespace sullae::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 12;

bool is_file(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

class Walk {
 public:
  Walk(const fs::path& root, std::size_t most) : root_(root), left_(most) {}

  Found run() {
    look(root_, 0);
    return std::move(found_);
  }

 private:
  std::string name_of(const fs::path& path) const {
    return path == root_ ? "." : path.lexically_relative(root_).string();
  }

  void look(const fs::path& folder, int depth) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return;
    if (!seen_.insert({status.st_dev, status.st_ino}).second) return;
    if (is_file(folder / runs::kRecordFile) && is_file(folder / runs::kMetricsFile)) {
      found_.runs.push_back(name_of(folder));
      return;
    }
    if (left_ == 0) {
      if (!std::exchange(is_cut_, true))
        found_.problems.push_back(
            fmt::format("{}: there are more folders than are looked at", root_.string()));
      return;
    }
    --left_;
    std::error_code error;
    const auto entries = entries_of(folder, error);
    if (!entries) {
      found_.problems.push_back(fmt::format("{}: {}", folder.string(), error.message()));
      return;
    }
    if (is_model(*entries)) {
      found_.models.push_back(name_of(folder));
      return;
    }
    if (fs::is_directory(folder / ".sullae" / "pipelines", error)) add_pipelines(*entries);
    if (depth == kDeepest) return;
    for (const auto& entry : *entries) {
      if (entry.filename().native().front() != '.') look(entry, depth + 1);
    }
  }

  static bool is_model(const std::vector<fs::path>& entries) {
    return std::ranges::any_of(entries, [](const fs::path& entry) {
      const auto name = entry.filename().string();
      if (repository::version_number(name) == 0) return false;
      return is_file(entry / repository::kModelFile) || is_file(entry / repository::kScriptFile);
    });
  }

  void add_pipelines(const std::vector<fs::path>& entries) {
    for (const auto& entry : entries) {
      if (entry.extension() == ".toml") found_.pipelines.push_back(name_of(entry));
    }
  }

  fs::path root_;
  std::size_t left_;
  bool is_cut_ = false;
  std::set<std::pair<dev_t, ino_t>> seen_;
  Found found_;
};

}  // namespace

Found look_below(const fs::path& root, std::size_t most_folders) {
  return Walk(root, most_folders).run();
}

}  // namespace sullae::dashboard
