#include <fmt/format.h>

#include <algorithm>

#include "data/format/format.h"
#include "data/record/input_file.h"
#include "sullae/data/digits.h"
#include "sullae/error.h"

namespace sullae::data {
namespace {

// Two zero bytes, the element type (8 is unsigned byte), the number of dimensions.
constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;

class IdxFile {
 public:
  IdxFile(const std::filesystem::path& file, std::uint32_t magic, const char* content)
      : name_(file.string()), bytes_(read_whole(file)) {
    const std::size_t dimensions = magic & 0xff;
    if (bytes_.size() < 4 + 4 * dimensions) {
      throw InputError(
          fmt::format("{}: is truncated: {} bytes, expected at least the {} of an IDX header",
                      name_, bytes_.size(), 4 + 4 * dimensions));
    }
    if (integer_at(0) != magic) {
      throw InputError(fmt::format("{}: has magic number 0x{:08x}, expected 0x{:08x} ({})", name_,
                                   integer_at(0), magic, content));
    }
    for (std::size_t i = 0; i < dimensions; ++i) sizes_.push_back(integer_at(4 + 4 * i));
    const std::string announced = fmt::format(
        "its header announces {} {}", sizes_[0],
        dimensions == 1 ? "labels" : fmt::format("images of {} x {}", sizes_[1], sizes_[2]));
    std::size_t elements = 1;
    for (const std::size_t size : sizes_) {
      // The product of three sizes of 32 bits may wrap around to anything.
      if (size != 0 && elements > bytes_.size() / size) {
        throw InputError(fmt::format("{}: is truncated: {}, more than the {} bytes that it has",
                                     name_, announced, bytes_.size()));
      }
      elements *= size;
    }
    const std::size_t expected = header() + elements;
    if (bytes_.size() != expected) {
      throw InputError(fmt::format("{}: {}: {}, {} bytes in all, but it has {}", name_,
                                   bytes_.size() < expected ? "is truncated" : "is too long",
                                   announced, expected, bytes_.size()));
    }
  }

  const std::string& name() const { return name_; }
  std::size_t size(std::size_t dimension) const { return sizes_[dimension]; }
  std::vector<std::uint8_t> data() const {
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(header()), bytes_.end()};
  }

 private:
  std::size_t header() const { return 4 + 4 * sizes_.size(); }
  std::uint32_t integer_at(std::size_t offset) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value << 8 | static_cast<std::uint8_t>(bytes_[offset + i]);
    return value;
  }

  std::string name_;
  std::string bytes_;
  std::vector<std::size_t> sizes_;
};

}  // namespace

ImageSet read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                  int classes) {
  const IdxFile image_file(find_file(images), kImagesMagic,
                           "unsigned bytes in three dimensions: images");
  const IdxFile label_file(find_file(labels), kLabelsMagic,
                           "unsigned bytes in one dimension: labels");
  if (image_file.size(0) != label_file.size(0)) {
    throw InputError(
        fmt::format("{} has {} images, but {} has {} labels: expected one label an image",
                    image_file.name(), image_file.size(0), label_file.name(), label_file.size(0)));
  }
  ImageSet set{.rows = image_file.size(1),
               .columns = image_file.size(2),
               .pixels = image_file.data(),
               .labels = label_file.data()};
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    if (set.labels[i] >= classes) {
      throw InputError(fmt::format("{}: label {} is {}, expected 0 to {}", label_file.name(), i,
                                   set.labels[i], classes - 1));
    }
  }
  return set;
}

Mnist read_mnist(const std::filesystem::path& directory) {
  constexpr int kDigits = 10;
  return {read_idx(directory / "train-images-idx3-ubyte", directory / "train-labels-idx1-ubyte",
                   kDigits),
          read_idx(directory / "t10k-images-idx3-ubyte", directory / "t10k-labels-idx1-ubyte",
                   kDigits)};
}

namespace {

constexpr std::string_view kImagesName = "images-idx3";
constexpr std::string_view kLabelsName = "labels-idx1";
constexpr int kMostClasses = 256;

std::filesystem::path labels_of(const std::filesystem::path& images) {
  auto labels = idx_labels_of(images);
  if (!labels.empty()) return labels;
  throw InputError(
      fmt::format("{}: expected a name with '{}', so that the labels are in the file "
                  "of the same name with '{}'",
                  images.string(), kImagesName, kLabelsName));
}

class IdxDataset final : public Dataset {
 public:
  explicit IdxDataset(const std::filesystem::path& images)
      : name_(images.string()), set_(read_idx(images, labels_of(images), kMostClasses)) {
    const auto largest = std::ranges::max_element(set_.labels);
    for (int i = 0; largest != set_.labels.end() && i <= *largest; ++i)
      classes_.push_back(std::to_string(i));
  }

  std::size_t size() const override { return set_.size(); }
  std::string place(std::size_t i) const override {
    return fmt::format("{}, record {}, offset {}", name_, i, 16 + i * set_.rows * set_.columns);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  Example read(std::size_t i) const override {
    const std::size_t bytes = set_.rows * set_.columns;
    const auto* const pixels = reinterpret_cast<const char*>(set_.pixels.data()) + i * bytes;
    Example example;
    example.set(feature::kPixels, std::string(pixels, bytes));
    example.set(feature::kRows, static_cast<std::int64_t>(set_.rows));
    example.set(feature::kColumns, static_cast<std::int64_t>(set_.columns));
    example.set(feature::kLabel, static_cast<std::int64_t>(set_.labels[i]));
    return example;
  }

 private:
  std::string name_;
  ImageSet set_;
  std::vector<std::string> classes_;
};

}  // namespace

std::filesystem::path idx_labels_of(const std::filesystem::path& images) {
  std::string name = images.filename().string();
  const auto at = name.find(kImagesName);
  if (at == std::string::npos) return {};
  name.replace(at, kImagesName.size(), kLabelsName);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);  // found either way
  return images.parent_path() / name;
}

Format idx_format() {
  return {.name = "idx",
          .recognises =
              [](const std::filesystem::path&, std::string_view start) {
                return start.starts_with(std::string_view("\0\0\x08\x03", 4)) ||
                       start.starts_with(std::string_view("\0\0\x08\x01", 4));
              },
          .open = [](const std::filesystem::path& path, const Opening&) -> DatasetPtr {
            return std::make_shared<IdxDataset>(path);
          }};
}

}  // namespace sullae::data
