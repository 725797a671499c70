// Stands in for Parquet and Arrow files where the build found no Arrow C++.
#include "data/format/format.h"

namespace sullae::data {
namespace {

DatasetPtr refuse(const std::filesystem::path& path, const Opening&) {
  throw InputError(
      path.string() +
      ": this build of Sullae has no Parquet and Arrow files: build it where Arrow C++ is, with -D "
      "SULLAE_WITH_PARQUET=ON");
}

}  // namespace

Format parquet_format() {
  return {.name = "parquet",
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("PAR1") || has_extension(path, {".parquet"});
              },
          .open = &refuse};
}

Format arrow_format() {
  return {.name = "arrow",
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("ARROW1") || has_extension(path, {".arrow", ".feather"});
              },
          .open = &refuse};
}

}  // namespace sullae::data
