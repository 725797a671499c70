// A folder with a folder of images for each class, or with images alone.
#include <fmt/format.h>

#include <algorithm>

#include "data/format/format.h"
#include "data/record/byte_file.h"
#include "storage/storage.h"

namespace sullae::data {
namespace {

namespace fs = std::filesystem;

using storage::Entry;

std::vector<Entry> seen_entries(const fs::path& folder) {
  auto entries = storage::list(folder);
  // Cameras call images _DSC0001.jpg, too.
  std::erase_if(entries, [](const Entry& entry) {
    return entry.name.starts_with('.') || (entry.name.starts_with('_') && entry.status.is_folder);
  });
  return entries;
}

bool holds_images(const std::vector<Entry>& entries) {
  return std::ranges::any_of(entries, [](const Entry& e) { return is_jpeg_name(e.name); });
}

// In a store a look into each folder takes its time: those of partitions, of which there may be
// many, are no classes.
bool may_be_class(const fs::path& folder, const Entry& entry) {
  return entry.status.is_folder &&
         !(storage::is_remote(folder) && entry.name.find('=') != std::string::npos);
}

class FolderDataset final : public Dataset {
 public:
  FolderDataset(const fs::path& folder, const DatasetOptions& options) {
    for (const auto& entry : seen_entries(folder)) {
      const fs::path path = folder / entry.name;
      if (entry.status.is_folder) {
        add_class(path, options);
      } else if (is_jpeg_name(entry.name)) {
        images_.push_back({path, kNoClass});
      } else {
        others_.note(path);
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
    for (const auto& entry : seen_entries(folder)) {
      if (is_jpeg_name(entry.name)) {
        images_.push_back({folder / entry.name, classes_.size()});
      } else {
        others_.note(folder / entry.name);
      }
    }
    if (images_.size() == before) {
      meet_damage(options, fmt::format("{}: the folder of a class has no images, expected files "
                                       "named *.jpg or *.jpeg",
                                       folder.string()));
      return;
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
              [](const fs::path& path, std::string_view start) {
                if (!start.empty() || !storage::is_folder(path)) return false;
                const auto entries = seen_entries(path);
                return holds_images(entries) ||
                       std::ranges::any_of(entries, [&](const Entry& entry) {
                         return may_be_class(path, entry) &&
                                holds_images(seen_entries(path / entry.name));
                       });
              },
          .open = [](const fs::path& path, const Opening& options) -> DatasetPtr {
            return std::make_shared<FolderDataset>(path, options);
          }};
}

}  // namespace sullae::data
