// A file of plain text, which is one sample.
#include <memory>

#include "data/format/format.h"
#include "data/record/byte_file.h"

namespace sullae::data {
namespace {

class TextFile final : public Dataset {
 public:
  explicit TextFile(const std::filesystem::path& path) : file_(ByteFile::open(path)) {}
  std::size_t size() const override { return 1; }
  std::string place(std::size_t) const override { return file_->name(); }
  Example read(std::size_t) const override {
    Example example;
    example.set(feature::kText, file_->read(0, file_->size()));
    return example;
  }

 private:
  std::shared_ptr<const ByteFile> file_;
};

}  // namespace

Format text_format() {
  return {.name = "text",
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return has_extension(path, {".txt", ".text", ".md"}) &&
                       start.find('\0') == std::string_view::npos;
              },
          .open = [](const std::filesystem::path& path, const DatasetOptions&) -> DatasetPtr {
            return std::make_shared<TextFile>(path);
          }};
}

}  // namespace sullae::data
