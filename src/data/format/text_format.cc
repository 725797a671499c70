// A file of plain text, which is one sample.
#include <memory>
#include <utility>

#include "data/format/format.h"
#include "data/record/byte_file.h"

namespace sullae::data {
namespace {

// Opened when it is read: there may be more than a process may have open.
class TextFile final : public Dataset {
 public:
  explicit TextFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::size_t size() const override { return 1; }
  std::string place(std::size_t) const override { return path_.string(); }
  Example read(std::size_t) const override {
    const auto file = ByteFile::open(path_);
    Example example;
    example.set(feature::kText, file->read(0, file->size()));
    return example;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

Format text_format() {
  return {.name = "text",
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return has_extension(path, {".txt", ".text", ".md"}) &&
                       start.find('\0') == std::string_view::npos;
              },
          .open = [](const std::filesystem::path& path, const Opening&) -> DatasetPtr {
            return std::make_shared<TextFile>(path);
          }};
}

}  // namespace sullae::data
