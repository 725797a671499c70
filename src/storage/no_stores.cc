// Stands in for stores where the build found no libcurl.
#include <string>
#include <string_view>

#include "storage/storage.h"
#include "storage/stores.h"
#include "sullae/error.h"

namespace sullae::storage {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw InputError(name +
                   ": this build of Sullae has no stores: build it where libcurl is, with -D "
                   "SULLAE_WITH_STORAGE=ON");
}

}  // namespace

std::optional<Location> find_location(const std::filesystem::path& path) {
  for (const std::string_view scheme : {"s3://", "webhdfs://", "swebhdfs://"}) {
    if (path.native().starts_with(scheme)) refuse(path.native());
  }
  return std::nullopt;
}

Store& store_of(const Location& location) { refuse(location.name()); }

std::unique_ptr<Reader> open_remote(const std::filesystem::path& file, const Status&) {
  refuse(file.native());
}

}  // namespace sullae::storage
