// Tar archives of images: in the WebDataset layout, in folders named after the classes, or named
// CLASS_….
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/format/format.h"
#include "data/record/byte_file.h"
#include "data/tar/tar_header.h"
#include "data/tar/tar_index.h"
#include "data/tar/webdataset.h"

namespace sullae::data {
namespace {

struct Name {
  std::string_view folder;     // the last one; empty where there is none
  std::string_view key;        // path up to the first dot of the file's own name
  std::string_view extension;  // what follows it
  std::string_view file;       // own name, with extension
};

Name split(std::string_view path) {
  Name name;
  const auto slash = path.rfind('/');
  const std::size_t own = slash == std::string_view::npos ? 0 : slash + 1;
  name.file = path.substr(own);
  const auto dot = name.file.find('.');
  name.key = path.substr(0, own + std::min(dot, name.file.size()));
  if (dot != std::string_view::npos) name.extension = name.file.substr(dot + 1);
  if (own > 1) {
    const auto folder = path.substr(0, own - 1);
    name.folder = folder.substr(folder.rfind('/') + 1);
  }
  return name;
}

class TarDataset final : public Dataset {
 public:
  TarDataset(const std::filesystem::path& path, const DatasetOptions& options)
      : file_(ByteFile::open(path)) {
    TarIndex index = index_tar(*file_);
    if (!index.problem.empty()) meet_damage(options, index.problem);
    members_ = std::move(index.members);
    std::string_view last_key;
    bool labelled = false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Name name = split(members_[i].name);
      if (name.file.starts_with('.')) continue;  // "._x" of macOS, say
      if (samples_.empty() || name.key != last_key) samples_.emplace_back();
      samples_.back().push_back(i);
      last_key = name.key;
      labelled = labelled || is_webdataset_label(name.extension);
    }
    OtherPictures others;
    std::erase_if(samples_, [&](const auto& sample) {
      if (holds_data(sample)) return false;
      for (const std::size_t member : sample) others.note(members_[member].name);
      return true;
    });
    others.report(path.string());
    if (labelled) {
      numbered_classes_ = classes_beside(path);
    } else {
      find_classes();
    }
  }

  std::size_t size() const override { return samples_.size(); }
  std::string place(std::size_t i) const override {
    const TarMember& first = members_[samples_[i].front()];
    return fmt::format("{}, record {} ({}), offset {}", file_->name(), i, first.name, first.offset);
  }
  const std::vector<std::string>& classes() const override {
    return classes_.empty() ? numbered_classes_ : classes_;
  }

  Example read(std::size_t i) const override {
    Example example;
    for (const std::size_t member : samples_[i]) {
      const TarMember& m = members_[member];
      const Name name = split(m.name);
      try {
        add_webdataset_member(example, name.extension,
                              file_->read(m.offset, static_cast<std::size_t>(m.bytes)));
      } catch (const DamagedRecord& error) {
        throw DamagedRecord(fmt::format("{}: {}", place(i), error.what()));
      }
    }
    const Name name = split(members_[samples_[i].front()].name);
    example.set(feature::kFileName, std::string(name.file));
    if (!classes_.empty()) example.set(feature::kClass, std::string(class_of(i)));
    return example;
  }

 private:
  bool holds_data(const std::vector<std::size_t>& sample) const {
    return std::ranges::any_of(sample, [&](std::size_t member) {
      const auto extension = split(members_[member].name).extension;
      return extension == "txt" || is_jpeg_name(fmt::format(".{}", extension));
    });
  }

  std::string_view class_of(std::size_t i) const {
    const Name name = split(members_[samples_[i].front()].name);
    return by_folder_ ? name.folder : name.file.substr(0, name.file.find('_'));
  }

  // Those of folders where all files are in some, else those before the "_" that all names have.
  void find_classes() {
    const auto all = [&](const auto& condition) {
      return std::ranges::all_of(samples_, [&](const auto& sample) {
        return condition(split(members_[sample.front()].name));
      });
    };
    by_folder_ = all([](const Name& name) { return !name.folder.empty() && name.folder != "."; });
    if (!by_folder_ &&
        !all([](const Name& name) { return name.file.find('_') != std::string::npos; }))
      return;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < samples_.size(); ++i) names.insert(class_of(i));
    classes_.assign(names.begin(), names.end());
  }

  std::shared_ptr<const ByteFile> file_;
  std::vector<TarMember> members_;
  std::vector<std::vector<std::size_t>> samples_;  // of members
  bool by_folder_ = false;
  std::vector<std::string> classes_;           // that samples are of by their names
  std::vector<std::string> numbered_classes_;  // that their labels are numbers of
};

}  // namespace

Format tar_format() {
  return {.name = "tar",
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                constexpr std::size_t kMagic = offsetof(TarHeader, magic);
                return has_extension(path, {".tar", ".tgz"}) ||
                       (start.size() >= kTarBlock && start.substr(kMagic, 5) == "ustar");
              },
          .open = [](const std::filesystem::path& path, const Opening& options) -> DatasetPtr {
            return std::make_shared<TarDataset>(path, options);
          }};
}

}  // namespace sullae::data
