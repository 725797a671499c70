#include "parallel/checkpoint/put_parts.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include "parallel/flat.h"
#include "parallel/sharded_state.h"
#include "torch/checkpoint_file.h"

namespace sullae {
namespace {

// A part that this rank writes, and where it is in what the rank has of the parameter.
struct OwnPart {
  Part part;
  std::size_t at = 0;
};

// What the optimizer keeps of this rank's piece, number for number.
std::vector<torch::Tensor> moments_of(const torch::optim::Optimizer& optimizer,
                                      const torch::Tensor& piece) {
  std::vector<torch::Tensor> moments;
  for (const auto& [name, value] : state_of(optimizer, piece)) {
    if (!is_moment(value, piece.numel())) continue;
    torch::Tensor moment = value.toTensor();
    if (moment.strides() != piece.strides())
      moment = torch::empty_like(piece, moment.scalar_type()).copy_(moment);
    moments.push_back(flat_of(moment));
  }
  return moments;
}

// Of what a rank has of a parameter, one part behind the other, what it writes.
std::vector<OwnPart> own_parts(const std::vector<Part>& parts, int rank) {
  std::vector<OwnPart> own;
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.rank != rank || part.from == part.to) continue;
    if (is_written(parts, i)) own.push_back({.part = part, .at = at});
    at += part.to - part.from;
  }
  return own;
}

}  // namespace

Crcs put_parts(const ParameterParts& parts, const Sharded* sharded, const Numbers& places,
               const Put& put) {
  const int own = parts.world().rank();
  Crcs crcs;
  const auto put_own = [&](std::int64_t offset, const std::vector<OwnPart>& written,
                           const torch::Tensor& elements) {
    const torch::Tensor values = elements.to(torch::kCPU);
    const std::size_t element = values.element_size();
    for (const auto& [part, at] : written) {
      const auto* const from = static_cast<const char*>(values.data_ptr()) + at * element;
      const std::size_t bytes = (part.to - part.from) * element;
      put(static_cast<std::uint64_t>(offset) + part.from * element, from, bytes);
      crcs.push_back(extend_crc(0, from, bytes));
    }
  };
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.all().size(); ++i) {
    const std::int64_t weights = places[next++];
    const auto written = own_parts(parts.parts_of(i), own);
    if (parts.is_whole(i)) {
      for (const Part& part : writers_of(parts, i)) {
        if (part.rank == own)
          put_own(weights, {{.part = part}}, range_of(parts.all()[i].tensor, part.from, part.to));
      }
    } else if (!written.empty()) {
      put_own(weights, written, flat_of(parts.piece_of(i)));
    }
    const auto count = static_cast<std::size_t>(places[next++]);
    if (count > 0 && !written.empty()) {
      const auto moments = moments_of(sharded->optimizer, parts.piece_of(i));
      if (moments.size() != count)
        throw Error(
            fmt::format("the optimizer keeps {} tensors of a part of '{}', and {} of another",
                        moments.size(), parts.all()[i].name, count));
      for (std::size_t moment = 0; moment < count; ++moment)
        put_own(places[next + moment], written, moments[moment]);
    }
    next += count;
  }
  return crcs;
}

}  // namespace sullae
