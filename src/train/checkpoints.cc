#include "train/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "sullae/error.h"

namespace sullae::train {

namespace {

// A second name for a file, in place of what had it before; a copy where the file system has no
// links.
void put_link(const std::filesystem::path& file, const std::filesystem::path& name) {
  auto temporary = name;
  temporary += ".tmp";
  std::error_code error;
  std::filesystem::remove(temporary, error);
  std::filesystem::create_hard_link(file, temporary, error);
  if (error) std::filesystem::copy_file(file, temporary);
  std::filesystem::rename(temporary, name);
}

}  // namespace

std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory,
                                                  const std::string& name) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto file = entry.path().filename().string();
    const bool is_named =
        name.empty() ? file.find("-step-") != std::string::npos : file.starts_with(name + "-step-");
    if (is_named && file.ends_with(".ckpt")) files.push_back(entry.path());
  }
  // Fixed width, so that names sort as steps do.
  std::ranges::sort(files, std::greater{});
  return files;
}

Checkpoints::Checkpoints(std::filesystem::path directory, std::string name, int keep,
                         Contested contested)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      keep_(keep),
      has_saved_(contested == Contested::go_on) {
  if (const auto error = make_writable(directory_))
    throw Error(fmt::format("--checkpoint-dir {}: nothing can be written there: {}",
                            directory_.string(), error.message()));
  lock_.emplace(directory_, name_, contested);
  if (!lock_->take()) return;
  // What a run that was killed while it wrote has left.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    const auto file = entry.path().filename().string();
    const bool own = file.starts_with(name_ + "-step-") || file.starts_with(name_ + "-best.");
    if (own && file.find(".ckpt.tmp") != std::string::npos)
      std::filesystem::remove(entry.path(), ignored);
  }
}

Checkpoints::~Checkpoints() {
  try {
    wait();
  } catch (const std::exception& error) {
    log::warning("{}", error.what());
  }
}

void Checkpoints::expect_none() const {
  const auto files = checkpoints_in(directory_, name_);
  if (files.empty()) return;
  throw InputError(fmt::format(
      "--checkpoint-dir {}: has checkpoints of an earlier run ({}): expected --resume, which goes "
      "on with it, or a folder without any",
      directory_.string(), files.front().filename().string()));
}

void Checkpoints::wait() {
  if (writing_.valid()) writing_.get();
}

void Checkpoints::save(std::int64_t steps, SerializedCheckpoint&& checkpoint, bool best) {
  wait();
  lock_->take();
  const auto file = file_of(steps);
  writing_ = std::async(std::launch::async, [this, file, best, content = std::move(checkpoint)] {
    write_checkpoint(file, content);
    saved(file, best);
  });
}

std::filesystem::path Checkpoints::file_of(std::int64_t steps) const {
  // Fixed width, so that names sort as steps do.
  return directory_ / fmt::format("{}-step-{:09}.ckpt", name_, steps);
}

void Checkpoints::saved(const std::filesystem::path& file, bool best) {
  if (best) put_link(file, directory_ / (name_ + "-best.ckpt"));
  remove_old(file);
}

void Checkpoints::remove_old(const std::filesystem::path& newest) {
  // Later ones are of a training that this one has taken the place of, when it begins; then, of
  // whoever goes on from what is written here.
  const bool begins = !std::exchange(has_saved_, true);
  int kept = 0;
  for (const auto& file : checkpoints_in(directory_, name_)) {
    if (file > newest ? !begins : ++kept <= keep_) continue;
    std::error_code error;
    std::filesystem::remove(file, error);
    if (error) log::warning("{} cannot be removed: {}", file.string(), error.message());
  }
}

std::optional<Checkpoints::Found> Checkpoints::newest(
    const std::function<CheckpointMetadata(const std::filesystem::path& file)>& load) const {
  const auto files = checkpoints_in(directory_, name_);
  if (files.empty()) return std::nullopt;
  for (const auto& file : files) {
    try {
      return Found{.file = file, .metadata = load(file)};
    } catch (const CheckpointError& error) {
      log::warning("{}; trying the one before", error.what());
    }
  }
  throw InputError(fmt::format("--resume: none of the {} checkpoints in {} is whole", files.size(),
                               directory_.string()));
}

}  // namespace sullae::train
