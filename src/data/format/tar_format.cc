// Tar archives of images: in the WebDataset layout, in folders named after the classes, or named
// CLASS_….
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "data/format/format.h"
#include "data/record/byte_file.h"
#include "data/tar/tar_header.h"
#include "data/tar/tar_index.h"
#include "data/tar/webdataset.h"

namespace sullae::data {
namespace {

struct Name {
  std::string_view folder;     // the last one; empty where there is none
  std::string_view key;        // path up to the dot in the file's own name before its extension
  std::string_view extension;  // what follows it
  std::string_view file;       // own name, with extension
};

// In the layout the first dot, but for numbers in names, as in cat.0.jpg, which would all be one
// sample's.
std::size_t extension_of(std::string_view file) {
  std::size_t dot = file.find('.');
  while (dot != std::string_view::npos) {
    const std::size_t next = file.find('.', dot + 1);
    if (next == std::string_view::npos) break;
    const auto between = file.substr(dot + 1, next - dot - 1);
    if (between.empty() || between.find_first_not_of("0123456789") != std::string_view::npos) break;
    dot = next;
  }
  return dot;
}

Name split(std::string_view path) {
  Name name;
  const auto slash = path.rfind('/');
  const std::size_t own = slash == std::string_view::npos ? 0 : slash + 1;
  name.file = path.substr(own);
  const auto dot = extension_of(name.file);
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
    if (index.other_links > 0)
      log::warning(
          "{}: {} link{} left out: expected regular files, or hard links to them (tar "
          "--dereference, or -h, stores what links lead to)",
          path.string(), index.other_links, index.other_links == 1 ? " is" : "s are");
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
    const auto picture = picture_of(i);
    for (const std::size_t member : samples_[i]) {
      const TarMember& m = members_[member];
      const Name name = split(m.name);
      if (picture && member != *picture && is_picture(name)) continue;
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
  static bool is_picture(const Name& name) {
    return is_jpeg_name(fmt::format(".{}", name.extension));
  }

  bool holds_data(const std::vector<std::size_t>& sample) const {
    return std::ranges::any_of(sample, [&](std::size_t member) {
      const Name name = split(members_[member].name);
      return name.extension == "txt" || is_picture(name);
    });
  }

  // The one that a sample has, or, of several, the one that is called no more than jpg; none where
  // it has none.
  std::optional<std::size_t> picture_of(std::size_t i) const {
    std::vector<std::size_t> pictures;
    std::vector<std::size_t> plain;
    for (const std::size_t member : samples_[i]) {
      const Name name = split(members_[member].name);
      if (!is_picture(name)) continue;
      pictures.push_back(member);
      if (name.extension.find('.') == std::string_view::npos) plain.push_back(member);
    }
    if (pictures.empty()) return std::nullopt;
    if (pictures.size() == 1) return pictures.front();
    if (plain.size() == 1) return plain.front();
    throw DamagedRecord(fmt::format("{}: '{}' and '{}' are images of one sample, expected one",
                                    place(i), members_[pictures[0]].name,
                                    members_[pictures[1]].name));
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
