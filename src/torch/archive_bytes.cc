#include "torch/archive_bytes.h"

#include <sstream>
#include <utility>

namespace sullae {

std::string bytes_of(torch::serialize::OutputArchive& archive) {
  std::ostringstream bytes;
  archive.save_to(bytes);
  return std::move(bytes).str();
}

torch::serialize::InputArchive archive_of(std::string bytes) {
  std::istringstream stream(std::move(bytes));
  torch::serialize::InputArchive archive;
  archive.load_from(stream, torch::kCPU);
  return archive;
}

}  // namespace sullae
