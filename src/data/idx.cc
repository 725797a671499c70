#include <fmt/format.h>

#include "data/input_file.h"
#include "sullae/data.h"

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
    std::size_t expected = header();
    std::size_t elements = 1;
    for (const std::size_t size : sizes_) elements *= size;
    expected += elements;
    if (bytes_.size() != expected) {
      throw InputError(fmt::format(
          "{}: {}: its header announces {} {}, {} bytes in all, but it has {}", name_,
          bytes_.size() < expected ? "is truncated" : "is too long", sizes_[0],
          dimensions == 1 ? "labels" : fmt::format("images of {} x {}", sizes_[1], sizes_[2]),
          expected, bytes_.size()));
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

}  // namespace sullae::data
