#include "dashboard/folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "pipeline/definition.h"
#include "repository/publish.h"
#include "runs/record.h"

namespace sullae::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 32;
constexpr std::size_t kMostProblems = 20;

bool is_file(const fs::path& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

class Walk {
 public:
  Walk(const fs::path& root, std::size_t most) : root_(root), left_(most) {}

  Found run() {
    look(root_, 0);
    // Links last: what they lead to goes by its own name where that is below the root, too.
    for (; !links_.empty(); links_.pop_front()) look(links_.front().first, links_.front().second);
    for (auto* const names : {&found_.runs, &found_.pipelines, &found_.models})
      std::ranges::sort(*names);
    return std::move(found_);
  }

 private:
  // By the kinds that the directory itself has: a data set's million files are not asked one by
  // one.
  struct Entries {
    std::set<std::string> folders;
    std::set<std::string> links;
    std::set<std::string> toml_files;
  };

  std::string name_of(const fs::path& path) const {
    return path == root_ ? "." : path.lexically_relative(root_).string();
  }
  void tell(const std::string& problem) {
    if (found_.problems.size() < kMostProblems) found_.problems.push_back(problem);
  }

  void look(const fs::path& folder, int depth) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0) {
      if (depth == 0) tell(fmt::format("{}: is not there", folder.string()));
      return;
    }
    if (!S_ISDIR(status.st_mode) || !seen_.insert({status.st_dev, status.st_ino}).second) return;
    if (is_file(folder / runs::kRecordFile) && is_file(folder / runs::kMetricsFile))
      found_.runs.push_back(name_of(folder));
    Entries entries;
    if (!list(folder, entries)) return;
    if (is_model(folder, entries)) {
      found_.models.push_back(name_of(folder));
      return;
    }
    std::error_code error;
    if (!entries.toml_files.empty() && fs::is_directory(folder / ".sullae" / "pipelines", error)) {
      for (const auto& name : entries.toml_files) {
        if (pipeline::looks_like_pipeline(folder / name))
          found_.pipelines.push_back(name_of(folder / name));
      }
    }
    if (depth == kDeepest)
      return tell(fmt::format("{}: what is below it is not looked at", folder.string()));
    for (const auto& name : entries.folders) look(folder / name, depth + 1);
    for (const auto& name : entries.links) links_.emplace_back(folder / name, depth + 1);
  }

  bool list(const fs::path& folder, Entries& entries) {
    std::error_code error;
    fs::directory_iterator at(folder, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      if (left_ == 0) {
        if (!std::exchange(is_cut_, true))
          tell(fmt::format("{}: there is more than is looked at", root_.string()));
        return false;
      }
      --left_;
      const auto name = at->path().filename().string();
      std::error_code ignored;
      if (name.ends_with(".toml")) entries.toml_files.insert(name);
      if (name.front() == '.' || !at->is_directory(ignored)) continue;
      (at->is_symlink(ignored) ? entries.links : entries.folders).insert(name);
    }
    if (error) tell(fmt::format("{}: {}", folder.string(), error.message()));
    return !error;
  }

  static bool is_model(const fs::path& folder, const Entries& entries) {
    return std::ranges::any_of(entries.folders, [&](const std::string& name) {
      return repository::version_number(name) > 0 &&
             std::ranges::any_of(repository::kModelFiles,
                                 [&](auto* file) { return is_file(folder / name / file); });
    });
  }

  fs::path root_;
  std::size_t left_;
  bool is_cut_ = false;
  std::set<std::pair<dev_t, ino_t>> seen_;
  std::deque<std::pair<fs::path, int>> links_;
  Found found_;
};

}  // namespace

Found look_below(const fs::path& root, std::size_t most) { return Walk(root, most).run(); }

}  // namespace sullae::dashboard
