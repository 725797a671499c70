#include <fmt/format.h>

#include <map>

#include "engine/compression/cast.h"
#include "engine/compression/top_k.h"
#include "sullae/compression.h"
#include "sullae/error.h"

namespace sullae {
namespace {

std::map<std::string, CompressionMaker, std::less<>>& registry() {
  static std::map<std::string, CompressionMaker, std::less<>> makers = {
      {"float16", engine::make_float16_compression},
      {"bfloat16", engine::make_bfloat16_compression},
      {"topk", engine::make_top_k_compression},
  };
  return makers;
}

}  // namespace

void register_compression(std::string name, CompressionMaker maker) {
  registry().insert_or_assign(std::move(name), std::move(maker));
}

std::vector<std::string> compression_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : registry()) names.push_back(name);
  return names;
}

std::unique_ptr<Compression> make_compression(std::string_view name) {
  if (name.empty() || name == "none") return nullptr;
  const auto colon = std::min(name.find(':'), name.size());
  const auto found = registry().find(name.substr(0, colon));
  if (found == registry().end()) {
    throw InputError(fmt::format("compression '{}': expected one of none, {}", name,
                                 fmt::join(compression_names(), ", ")));
  }
  return found->second(colon < name.size() ? name.substr(colon + 1) : std::string_view());
}

}  // namespace sullae
