#include "data/tar/tar_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/tar/tar_header.h"

namespace sullae::data {
namespace {

// A field that ends with a zero byte or with its space.
template <std::size_t size>
std::string_view text(const char (&field)[size]) {
  return {field, static_cast<std::size_t>(std::find(field, field + size, '\0') - field)};
}

// Octal digits between spaces or zero bytes, or, for large values, big-endian with the first bit
// set (GNU).
template <std::size_t size>
std::optional<std::uint64_t> number(const char (&field)[size]) {
  if (static_cast<unsigned char>(field[0]) & 0x80U) {
    std::uint64_t value = static_cast<unsigned char>(field[0]) & 0x7fU;
    for (std::size_t i = 1; i < size; ++i) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return value;
  }
  std::string_view digits = text(field);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  return value;
}

// A record "LENGTH KEY=VALUE\n" of a pax header.
std::optional<std::string> pax_value(std::string_view records, std::string_view key) {
  std::optional<std::string> value;
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc{} || length <= digits + 2 || length > records.size()) return value;
    const auto record = records.substr(digits + 1, length - digits - 2);
    const auto equals = record.find('=');
    if (record.substr(0, equals) == key && equals != std::string_view::npos)
      value = std::string(record.substr(equals + 1));
    records.remove_prefix(length);
  }
  return value;
}

class Indexer {
 public:
  explicit Indexer(const ByteFile& file) : file_(file) {}

  TarIndex run() {
    bool more = true;
    while (more && index_.problem.empty()) more = step();
    return std::move(index_);
  }

 private:
  static constexpr std::uint64_t kLongestName = 1U << 20;

  bool fail(const std::string& what) {
    index_.problem =
        fmt::format("{}, member {}, offset {}: {}", file_.name(), count_, offset_, what);
    return false;
  }

  // Returns whether there may be more.
  bool step() {
    if (offset_ == file_.size()) return false;  // without the two empty blocks, as some writers do
    if (file_.size() - offset_ < kTarBlock) {
      return fail(fmt::format("is truncated: {} bytes are left, expected the {} of a header",
                              file_.size() - offset_, kTarBlock));
    }
    TarHeader header;
    file_.read(offset_, &header, sizeof header);
    const auto* const bytes = reinterpret_cast<const char*>(&header);
    if (std::all_of(bytes, bytes + kTarBlock, [](char c) { return c == 0; })) return false;
    if (number(header.checksum) != tar_checksum(header))
      return fail("is no tar header: its checksum does not fit");
    auto size = number(header.size);
    if (!size) return fail("its size is no number");
    // A pax header overrides that of the member that it precedes.
    const bool describes_next =
        header.type == 'x' || header.type == 'L' || header.type == 'K' || header.type == 'g';
    if (!describes_next && pax_size_) size = pax_size_;
    const std::uint64_t content = offset_ + kTarBlock;
    if (*size > file_.size() - content) {
      return fail(fmt::format("is truncated: {} bytes expected, {} are left", *size,
                              file_.size() - content));
    }
    if (describes_next) {
      if (*size > kLongestName) return fail("its name is longer than 1 MiB");
      describe_next(header.type, file_.read(content, static_cast<std::size_t>(*size)));
    } else {
      // A contiguous file (7) is a regular one.
      if (header.type == '0' || header.type == '\0' || header.type == '7')
        index_.members.push_back({name_of(header), content, *size});
      if (header.type == '1') add_link(header);
      if (header.type == '2') ++index_.other_links;
      long_name_.reset();
      long_link_.reset();
      pax_size_.reset();
    }
    ++count_;
    // The last one's padding may be missing.
    offset_ = std::min(content + (*size + kTarBlock - 1) / kTarBlock * kTarBlock, file_.size());
    return true;
  }

  // A second name of a file, which writers give no content.
  void add_link(const TarHeader& header) {
    // Most archives have none. Of two members of a name the later one holds.
    for (std::size_t i = places_of_; i < index_.members.size(); ++i)
      places_[index_.members[i].name] = i;
    places_of_ = index_.members.size();
    const auto found = places_.find(long_link_.value_or(std::string(text(header.link_name))));
    if (found == places_.end()) {
      ++index_.other_links;
      return;
    }
    const TarMember& first = index_.members[found->second];
    index_.members.push_back({name_of(header), first.offset, first.bytes});
  }

  void describe_next(char type, const std::string& content) {
    if (type == 'L') long_name_ = content.substr(0, content.find('\0'));
    if (type == 'K') long_link_ = content.substr(0, content.find('\0'));
    if (type != 'x') return;
    if (auto link = pax_value(content, "linkpath")) long_link_ = std::move(link);
    if (auto path = pax_value(content, "path")) long_name_ = std::move(path);
    if (const auto size = pax_value(content, "size")) {
      std::uint64_t value = 0;
      const auto result = std::from_chars(size->data(), size->data() + size->size(), value);
      if (result.ec == std::errc{}) pax_size_ = value;
    }
  }

  std::string name_of(const TarHeader& header) const {
    if (long_name_) return *long_name_;
    std::string name(text(header.name));
    const bool posix = std::memcmp(header.magic, "ustar", sizeof header.magic) == 0;
    if (posix && header.prefix[0] != '\0') name = std::string(text(header.prefix)) + '/' + name;
    return name;
  }

  const ByteFile& file_;
  std::uint64_t offset_ = 0;
  std::size_t count_ = 0;
  std::optional<std::string> long_name_;
  std::optional<std::string> long_link_;
  std::unordered_map<std::string, std::size_t> places_;  // of the first members, by name
  std::size_t places_of_ = 0;                            // of so many
  std::optional<std::uint64_t> pax_size_;
  TarIndex index_;
};

}  // namespace

TarIndex index_tar(const ByteFile& file) { return Indexer(file).run(); }

}  // namespace sullae::data
