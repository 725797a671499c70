// A folder with a folder of images for each class, or with images alone.
#include <fmt/format.h>

#include <algorithm>

#include "data/format/format.h"
#include "data/record/byte_file.h"

namespace sullae::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  if (error)
    throw InputError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::ranges::sort(entries);
  return entries;
}

bool holds_images(const fs::path& folder) {
  const auto entries = sorted_entries(folder);
  return std::ranges::any_of(entries, [](const fs::path& e) { return is_jpeg_name(e.string()); });
}

class FolderDataset final : public Dataset {
 public:
  FolderDataset(const fs::path& folder, const DatasetOptions& options) {
    for (const auto& entry : sorted_entries(folder)) {
      if (fs::is_directory(entry)) {
        add_class(entry, options);
      } else if (is_jpeg_name(entry.string())) {
        images_.push_back({entry, kNoClass});
      } else {
        others_.note(entry);
      }
    }
    others_.report(folder.string());
  }

  std::size_t size() const override { return images_.size(); }
  std::string place(std::size_t i) const override { return images_[i].path.string(); }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const auto file = ByteFile::open(images_[i].path);
    Example example;
    example.set(feature::kImage, file->read(0, file->size()));
    example.set(feature::kFileName, images_[i].path.filename().string());
    if (images_[i].label != kNoClass) example.set(feature::kClass, classes_[images_[i].label]);
    return example;
  }

 private:
  static constexpr std::size_t kNoClass = SIZE_MAX;
  struct ImageFile {
    fs::path path;
    std::size_t label;
  };

  void add_class(const fs::path& folder, const DatasetOptions& options) {
    const std::size_t before = images_.size();
    for (const auto& file : sorted_entries(folder)) {
      if (is_jpeg_name(file.string())) {
        images_.push_back({file, classes_.size()});
      } else {
        others_.note(file);
      }
    }
    if (images_.size() == before) {
      meet_damage(options, fmt::format("{}: the folder of a class has no images, expected files "
                                       "named *.jpg or *.jpeg",
                                       folder.string()));
    }
    classes_.push_back(folder.filename().string());
  }

  OtherPictures others_;
  std::vector<ImageFile> images_;
  std::vector<std::string> classes_;
};

}  // namespace

Format folder_format() {
  return {.name = "folder",
          .recognises =
              [](const fs::path& path, std::string_view) {
                if (!fs::is_directory(path)) return false;
                const auto entries = sorted_entries(path);
                return holds_images(path) ||
                       std::ranges::any_of(entries, [](const fs::path& entry) {
                         return fs::is_directory(entry) && holds_images(entry);
                       });
              },
          .open = [](const fs::path& path, const Opening& options) -> DatasetPtr {
            return std::make_shared<FolderDataset>(path, options);
          }};
}

}  // namespace sullae::data
