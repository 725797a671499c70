#include "parallel/pipeline/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <future>

#include "base/interruption.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_type.h"

namespace sullae::pipeline {
namespace {

constexpr std::size_t kMostDimensions = 12;
enum class Kind : std::int64_t { tensor, nothing, failed };

// Small enough to wait at its receiver, so that it is never waited for by its sender.
struct Header {
  Kind kind = Kind::tensor;
  std::int64_t micro_batches = 0;  // of the sender's batch
  std::int64_t type = 0;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> sizes = {};
};

Header header_of(const Arrival& what) {
  Header header;
  header.kind = what.failed ? Kind::failed : what.tensor.defined() ? Kind::tensor : Kind::nothing;
  if (header.kind != Kind::tensor) return header;
  const auto sizes = what.tensor.sizes();
  header.type = static_cast<std::int64_t>(what.tensor.scalar_type());
  header.dimensions = static_cast<std::int64_t>(sizes.size());
  std::ranges::copy(sizes, header.sizes.begin());
  return header;
}

torch::Tensor tensor_for(const Header& header) {
  return torch::empty(
      torch::IntArrayRef(header.sizes.data(), static_cast<std::size_t>(header.dimensions)),
      static_cast<torch::ScalarType>(header.type));
}

DataType type_of(const torch::Tensor& tensor) {
  return data_type(tensor.scalar_type(), "Pipeline: what is between stages");
}

}  // namespace

// The header is awaited by the engine, which then asks for the body: this rank may be computing.
struct Messages::Incoming {
  Header header;
  torch::Tensor body;
  std::promise<std::optional<Handle>> asked;  // of the body, where there is one
  std::future<std::optional<Handle>> body_asked = asked.get_future();
};

struct Messages::Outgoing {
  Header header;
  torch::Tensor body;
  std::vector<Handle> handles;
};

int Messages::tag_of(const Key& key, bool is_body) {
  return ((key.micro_batch * kMostStages + key.stage) * 2 + (key.work == Work::forward ? 0 : 1)) *
             2 +
         (is_body ? 1 : 0);
}

void Messages::expect(Work work, int to_stage, int micro_batch) {
  const Key key{work, to_stage, micro_batch};
  const int from = rank_of(work == Work::forward ? to_stage - 1 : to_stage + 1);
  if (from == world_.rank() || expected_.contains(key)) return;
  const auto incoming = std::make_shared<Incoming>();
  const Handle handle = world_.receive_async(&incoming->header, sizeof(Header), DataType::uint8,
                                             from, tag_of(key, /*is_body=*/false));
  const int body_tag = tag_of(key, /*is_body=*/true);
  handle.then([incoming, from, body_tag, world = world_](const std::exception_ptr& error) {
    if (error) return incoming->asked.set_exception(error);
    if (incoming->header.kind != Kind::tensor) return incoming->asked.set_value(std::nullopt);
    try {
      incoming->body = tensor_for(incoming->header);
      const Handle body = world.receive_async(incoming->body.data_ptr(), count_of(incoming->body),
                                              type_of(incoming->body), from, body_tag);
      body.then([incoming](const std::exception_ptr&) {});  // which is written to until then
      incoming->asked.set_value(body);
    } catch (const std::exception&) {  // rethrown by take()
      incoming->asked.set_exception(std::current_exception());
    }
  });
  expected_[key] = incoming;
}

Arrival Messages::take(Work work, int to_stage, int micro_batch) {
  const Key key{work, to_stage, micro_batch};
  if (const auto found = here_.find(key); found != here_.end()) {
    Arrival arrival = std::move(found->second);
    here_.erase(found);
    return arrival;
  }
  expect(work, to_stage, micro_batch);
  const auto incoming = std::move(expected_.at(key));
  expected_.erase(key);
  constexpr std::chrono::milliseconds kSlice{100};
  while (incoming->body_asked.wait_for(kSlice) != std::future_status::ready) check_interruption();
  const auto handle = incoming->body_asked.get();
  if (incoming->header.micro_batches != micro_batches_)
    throw InputError(
        fmt::format("Pipeline: {} micro-batches on rank {}, and {} on rank {}: "
                    "expected the same on all ranks",
                    micro_batches_, world_.rank(), incoming->header.micro_batches,
                    rank_of(work == Work::forward ? to_stage - 1 : to_stage + 1)));
  if (handle) handle->wait();
  return {.failed = incoming->header.kind == Kind::failed, .tensor = incoming->body};
}

void Messages::check_can_be_sent(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != torch::kStrided)
    throw InputError("a stage's output is no dense tensor");
  if (static_cast<std::size_t>(tensor.dim()) > kMostDimensions)
    throw InputError(fmt::format("a stage's output has {} dimensions: expected at most {}",
                                 tensor.dim(), kMostDimensions));
  type_of(tensor);
}

void Messages::send(const Arrival& what, Work work, int to_stage, int micro_batch) {
  const Key key{work, to_stage, micro_batch};
  const int to = rank_of(to_stage);
  if (to == world_.rank()) {
    here_[key] = {.failed = what.failed,
                  .tensor = what.tensor.defined() ? what.tensor.detach() : what.tensor};
    return;
  }
  drop_sent();
  const auto outgoing = std::make_shared<Outgoing>();
  outgoing->header = header_of(what);
  outgoing->header.micro_batches = micro_batches_;
  if (outgoing->header.kind == Kind::tensor)
    outgoing->body = what.tensor.detach().to(torch::kCPU).contiguous();
  outgoing_.push_back(outgoing);
  const auto send_part = [&](const void* data, std::size_t count, DataType type, bool is_body) {
    const Handle handle = world_.send_async(data, count, type, to, tag_of(key, is_body));
    handle.then([outgoing](const std::exception_ptr&) {});  // which is read until then
    outgoing->handles.push_back(handle);
  };
  send_part(&outgoing->header, sizeof(Header), DataType::uint8, /*is_body=*/false);
  if (outgoing->body.defined())
    send_part(outgoing->body.data_ptr(), count_of(outgoing->body), type_of(outgoing->body),
              /*is_body=*/true);
}

void Messages::drop_sent() {
  std::erase_if(outgoing_, [](const auto& one) {
    return std::ranges::all_of(one->handles, [](const Handle& handle) { return handle.done(); });
  });
}

void Messages::finish() {
  for (const auto& one : outgoing_) {
    for (const Handle& handle : one->handles) handle.wait();
  }
  outgoing_.clear();
}

}  // namespace sullae::pipeline
