// Archives of libtorch in memory.
#pragma once

#include <torch/serialize.h>

#include <string>

namespace sullae {

/// What was written to it.
std::string bytes_of(torch::serialize::OutputArchive& archive);
/// The opposite. Its tensors are in host memory, wherever they were.
torch::serialize::InputArchive archive_of(std::string bytes);
/// To where what they are read into is.
void move_tensors(torch::serialize::InputArchive& archive, torch::Device device);

}  // namespace sullae
