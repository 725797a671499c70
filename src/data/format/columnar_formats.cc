// Parquet and Arrow files, whether or not this build reads them.
#include "data/format/format.h"

namespace sullae::data {

Format parquet_format() {
  return {.name = "parquet",
          .is_table = true,
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("PAR1") || has_extension(path, {".parquet"});
              },
          .open = &open_parquet_set};
}

Format arrow_format() {
  return {.name = "arrow",
          .is_table = true,
          .recognises =
              [](const std::filesystem::path& path, std::string_view start) {
                return start.starts_with("ARROW1") || has_extension(path, {".arrow", ".feather"});
              },
          .open = &open_arrow_set};
}

}  // namespace sullae::data
