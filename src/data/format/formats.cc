#include <algorithm>

#include "base/ascii.h"
#include "base/log.h"
#include "base/split.h"
#include "data/format/format.h"
#include "storage/storage.h"

namespace sullae::data {

const std::vector<Format>& formats() {
  // In the order in which they are asked: those with unmistakable first bytes before those that are
  // known by their names alone.
  static const std::vector<Format> all = {
      folder_format(),   parquet_format(), arrow_format(), tar_format(), idx_format(),
      tfrecord_format(), jsonl_format(),   tsv_format(),   csv_format(), text_format()};
  return all;
}

void meet_damage(const DatasetOptions& options, const std::string& message) {
  if (options.damage == nullptr) throw DamagedRecord(message);
  options.damage->report(message);
}

bool has_extension(const std::filesystem::path& path,
                   std::initializer_list<std::string_view> endings) {
  std::string name = to_lower(path.filename().native());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return std::ranges::any_of(endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_jpeg_name(std::string_view name) {
  return has_extension(std::filesystem::path(name), {".jpg", ".jpeg"}) && !name.ends_with(".gz");
}

void OtherPictures::note(const std::filesystem::path& file) {
  if (!has_extension(file, {".png", ".gif", ".bmp", ".webp", ".tif", ".tiff"})) return;
  if (count_++ == 0) first_ = file.string();
}

void OtherPictures::report(const std::string& where) const {
  if (count_ == 0) return;
  log::warning("{}: {} file{} no JPEG and left out, such as {}: convert them first", where, count_,
               count_ == 1 ? " is" : "s are", first_);
}

std::vector<std::string> classes_beside(const std::filesystem::path& path) {
  const auto file = path.parent_path() / "classes.txt";
  // Who may not see whether it is there is told: numbers would lose their names without a word.
  if (!storage::exists(file)) return {};
  constexpr std::size_t kMost = std::size_t{64} << 20;
  return lines_of(storage::read_file(file, kMost));
}

}  // namespace sullae::data
