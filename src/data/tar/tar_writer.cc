#include <fmt/format.h>

#include <cstring>

#include "data/record/output_file.h"
#include "data/tar/tar_header.h"
#include "data/tar/webdataset.h"
#include "sullae/data/tar.h"
#include "sullae/error.h"

namespace sullae::data {
namespace {

template <std::size_t size>
void put(char (&field)[size], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), size));
}

}  // namespace

class TarWriter::Impl {
 public:
  explicit Impl(const std::filesystem::path& file) : file_(file) {}

  void write(std::string_view name, std::string_view content) {
    if (name.size() > sizeof(TarHeader::name)) {
      const std::string zero_ended(name.data(), name.size());
      write_member("././@LongLink", {zero_ended.c_str(), zero_ended.size() + 1}, 'L');
    }
    write_member(name, content, '0');
  }

  void close() {
    file_.write(std::string(2 * kTarBlock, '\0'));
    file_.commit();
  }

 private:
  // The same content gives the same archive: no times, no users.
  void write_member(std::string_view name, std::string_view content, char type) {
    TarHeader header{};
    put(header.name, name);
    put(header.mode, "0000644");
    put(header.uid, "0000000");
    put(header.gid, "0000000");
    put(header.size, fmt::format("{:011o}", content.size()));
    put(header.mtime, "00000000000");
    header.type = type;
    put(header.magic, "ustar ");  // GNU's form, whose long names these are
    put(header.version, " ");
    put(header.checksum, fmt::format("{:06o}", tar_checksum(header)));
    header.checksum[7] = ' ';
    file_.write({reinterpret_cast<const char*>(&header), sizeof header});
    file_.write(content);
    file_.write(std::string((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0'));
  }

  OutputFile file_;
};

TarWriter::TarWriter(const std::filesystem::path& file) : impl_(std::make_unique<Impl>(file)) {}
TarWriter::~TarWriter() = default;
void TarWriter::write(std::string_view name, std::string_view content) {
  impl_->write(name, content);
}
void TarWriter::write(std::string_view key, const Example& example) {
  for (const auto& [name, feature] : example.features) {
    const auto member = webdataset_member(name, feature);
    if (!member) {
      throw InputError(fmt::format(
          "the feature '{}' has no place in a tar archive of samples, which holds images "
          "({}), texts ({}) and labels; convert to tfrecord",
          name, feature::kImage, feature::kText));
    }
    if (!member->extension.empty())
      write(fmt::format("{}.{}", key, member->extension), member->content);
  }
}
void TarWriter::close() { impl_->close(); }

}  // namespace sullae::data
