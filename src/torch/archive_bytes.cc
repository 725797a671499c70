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

void move_tensors(torch::serialize::InputArchive& archive, torch::Device device) {
  if (device.is_cpu()) return;
  for (const std::string& key : archive.keys()) {
    torch::IValue value;
    archive.read(key, value);
    if (value.isTensor()) {
      auto tensor = value.toTensor();  // which is the archive's own
      if (tensor.defined()) tensor.set_data(tensor.to(device));
    } else if (value.isTensorList()) {
      for (torch::Tensor tensor : value.toTensorVector()) {
        if (tensor.defined()) tensor.set_data(tensor.to(device));
      }
    } else if (value.isObject()) {
      torch::serialize::InputArchive inner;
      archive.read(key, inner);
      move_tensors(inner, device);
    }
  }
}

}  // namespace sullae
