#include "engine/fused_allreduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/copy.h"
#include "collective/counts.h"
#include "engine/scale.h"

namespace sullae::engine {
namespace {

// A larger tensor gains less from company than copying it costs.
constexpr std::size_t kAloneBytes = std::size_t{128} << 10;

// Tensors start at a cache line, so that copies and kernels are aligned.
std::size_t padded(std::size_t count, DataType type) {
  return padded_to_lines(count, element_size(type));
}

}  // namespace

bool FusedAllreduce::fits(const Piece& piece, DataType type) const {
  const std::size_t bytes = piece.buffers.count * element_size(type);
  return bytes <= kAloneBytes &&
         padded(piece.buffers.count, type) * element_size(type) <= threshold_;
}

void FusedAllreduce::run(const Reduction& reduction, const std::vector<Piece>& pieces) {
  const std::size_t most = threshold_ / element_size(reduction.type);
  std::vector<const Piece*> together;
  std::size_t elements = 0;
  const auto flush = [&] {
    if (together.size() == 1) {
      run_alone(reduction, *together.front());
    } else if (!together.empty()) {
      run_together(reduction, together, elements);
    }
    together.clear();
    elements = 0;
  };
  for (const Piece& piece : pieces) {
    if (!fits(piece, reduction.type)) {
      run_alone(reduction, piece);
      continue;
    }
    const std::size_t size = padded(piece.buffers.count, reduction.type);
    if (elements + size > most) flush();
    together.push_back(&piece);
    elements += size;
  }
  flush();
}

void FusedAllreduce::run_alone(const Reduction& reduction, const Piece& piece) {
  const auto [in, out, count] = piece.buffers;
  const Span span(timeline_, Lane::negotiated, "ALLREDUCE", piece.name,
                  count * element_size(reduction.type));
  if (piece.joined) {
    std::vector<std::byte> zeros(count * element_size(reduction.type));
    communicator_.allreduce(zeros.data(), zeros.data(), count, reduction.type, reduction.op);
    return;
  }
  const bool scaled = reduction.prescale != 1.0;
  if (scaled) scale(in, out, count, reduction.type, reduction.prescale);
  communicator_.allreduce(scaled ? out : in, out, count, reduction.type, reduction.op);
  if (reduction.postscale != 1.0) scale(out, out, count, reduction.type, reduction.postscale);
}

void FusedAllreduce::run_together(const Reduction& reduction,
                                  const std::vector<const Piece*>& pieces, std::size_t elements) {
  const std::size_t width = element_size(reduction.type);
  const std::string name =
      timeline_.on() ? fmt::format("{} tensors: {} …", pieces.size(), pieces.front()->name)
                     : std::string();
  if (!buffer_) buffer_ = communicator_.allocate_shared(capacity_);
  copy_in(reduction, pieces, name, elements * width);
  {
    const Span span(timeline_, Lane::negotiated, "ALLREDUCE", name, elements * width);
    reduce_buffer(reduction, pieces, elements);
  }
  copy_out(reduction, pieces, name, elements * width);
}

void FusedAllreduce::reduce_buffer(const Reduction& reduction,
                                   const std::vector<const Piece*>& pieces, std::size_t elements) {
  if (reduction.op != ReduceOp::adasum) {
    return communicator_.allreduce(buffer_.get(), buffer_.get(), elements, reduction.type,
                                   reduction.op);
  }
  std::vector<std::size_t> tensors;
  for (const Piece* piece : pieces) tensors.push_back(padded(piece->buffers.count, reduction.type));
  communicator_.adasum(buffer_.get(), buffer_.get(), tensors, reduction.type);
}

void FusedAllreduce::copy_in(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                             const std::string& name, std::size_t all_bytes) {
  const Span span(timeline_, Lane::negotiated, "COPY_IN", name, all_bytes);
  const std::size_t width = element_size(reduction.type);
  std::byte* at = buffer_.get();
  for (const Piece* piece : pieces) {
    const std::size_t bytes = piece->buffers.count * width;
    if (piece->joined) {
      std::fill_n(at, bytes, std::byte{0});
    } else if (reduction.prescale != 1.0) {
      scale(piece->buffers.in, at, piece->buffers.count, reduction.type, reduction.prescale);
    } else {
      copy_bytes(at, piece->buffers.in, bytes);
    }
    const std::size_t padded_bytes = padded(piece->buffers.count, reduction.type) * width;
    // Adasum's products are over all that is there.
    if (reduction.op == ReduceOp::adasum)
      std::fill_n(at + bytes, padded_bytes - bytes, std::byte{0});
    at += padded_bytes;
  }
}

void FusedAllreduce::copy_out(const Reduction& reduction, const std::vector<const Piece*>& pieces,
                              const std::string& name, std::size_t all_bytes) const {
  const Span span(timeline_, Lane::negotiated, "COPY_OUT", name, all_bytes);
  const std::size_t width = element_size(reduction.type);
  const std::byte* at = buffer_.get();
  for (const Piece* piece : pieces) {
    if (!piece->joined && reduction.postscale != 1.0) {
      scale(at, piece->buffers.out, piece->buffers.count, reduction.type, reduction.postscale);
    } else if (!piece->joined) {
      copy_bytes(piece->buffers.out, at, piece->buffers.count * width);
    }
    at += padded(piece->buffers.count, reduction.type) * width;
  }
}

}  // namespace sullae::engine
