#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "collective/reduce/reduce.h"
#include "engine/scale.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "sullae/torch/async.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_handle.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Shape = std::vector<std::int64_t>;
using State = TensorHandle::State;

// Where `output` is written while the operation runs: there, or in memory that is copied there
// later.
void add_output(State& state, const torch::Tensor& output, const char* what) {
  check_writable(output, what);
  const bool plain = is_plain(output);
  note_write(output);
  state.results.push_back(
      plain ? output : torch::empty(output.sizes(), output.options().device(torch::kCPU)));
  state.targets.push_back(plain ? torch::Tensor() : output);
}

void check_fits(const torch::Tensor& input, const torch::Tensor& output, const char* what) {
  if (output.defined() && input.sizes() == output.sizes() &&
      input.scalar_type() == output.scalar_type())
    return;
  throw InputError(
      fmt::format("{}: a result of {} {} for a tensor of {} {}: expected the same shape and type",
                  what, output.defined() ? shape_of(output) : "no",
                  output.defined() ? c10::toString(output.scalar_type()) : "tensor",
                  shape_of(input), c10::toString(input.scalar_type())));
}

// One element type for a group: its members travel together.
DataType type_of(const Tensors& tensors, const char* what) {
  if (tensors.empty()) throw InputError(fmt::format("{}: a group of no tensors", what));
  const DataType type = data_type(tensors[0].scalar_type(), fmt::format("{}: the tensor", what));
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.scalar_type() != tensors[0].scalar_type()) {
      throw InputError(fmt::format("{}: tensors of types {} and {} in one group: expected one type",
                                   what, c10::toString(tensors[0].scalar_type()),
                                   c10::toString(tensor.scalar_type())));
    }
  }
  return type;
}

std::string shapes_of(const Tensors& tensors) {
  std::string text;
  for (const torch::Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + shape_of(tensor);
  return text;
}

std::string all_rows_of(const Tensors& tensors) {
  std::string text;
  for (const torch::Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + rows_of(tensor);
  return text;
}

std::size_t row_elements(const torch::Tensor& tensor) {
  const auto sizes = tensor.sizes().slice(1);
  return static_cast<std::size_t>(
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>()));
}

torch::Tensor with_rows(const torch::Tensor& like, std::size_t rows) {
  Shape shape = like.sizes().vec();
  shape[0] = static_cast<std::int64_t>(rows);
  return torch::empty(shape, like.options());
}

std::vector<std::size_t> elements(const std::vector<std::int64_t>& rows, std::size_t a_row) {
  std::vector<std::size_t> counts;
  for (const auto n : rows) counts.push_back(static_cast<std::size_t>(n) * a_row);
  return counts;
}

std::size_t sum(const std::vector<std::int64_t>& rows) {
  return static_cast<std::size_t>(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
}

// Not the tensors, whose last reference may be Python's: to let it go takes the interpreter's lock,
// for which the engine's thread would wait.
using Options = std::vector<torch::TensorOptions>;
Options options_of(const Tensors& tensors) {
  Options options;
  for (const torch::Tensor& tensor : tensors) options.push_back(tensor.options());
  return options;
}

// Results are made in host memory, and go back to where the inputs are.
void send_back_to(State& state, const Options& places) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool elsewhere = !places[i].device().is_cpu();
    state.targets.push_back(elsewhere ? torch::empty(state.results[i].sizes(), places[i])
                                      : torch::Tensor());
  }
}

// Runs `collectives` of `state` when all ranks have submitted it.
TensorHandle negotiate(const std::shared_ptr<State>& state, const World& world,
                       const AsyncOptions& options, std::string what,
                       std::function<void(Communicator&, State&)> collectives) {
  state->handle = AdapterView(world).negotiate(
      [state, collectives = std::move(collectives)](Communicator& communicator) {
        const c10::InferenceMode off(false);  // of the thread that happens to wait
        collectives(communicator, *state);
      },
      {.name = options.name, .what = std::move(what)});
  return TensorHandleMaker::make(state);
}

Tensors reachable_rows(const Tensors& tensors, const char* what) {
  Tensors rows;
  for (const torch::Tensor& tensor : tensors) {
    torch::Tensor values = reachable(tensor, what);
    rows.push_back(values.dim() == 0 ? values.unsqueeze(0) : values);
  }
  return rows;
}

}  // namespace

TensorHandle allreduce_async(const Tensors& inputs, const Tensors& outputs, ReduceOp op,
                             const AsyncOptions& options, const World& world) {
  constexpr auto kWhat = "allreduce_async";
  if (inputs.size() != outputs.size()) {
    throw InputError(
        fmt::format("{}: {} results for {} tensors", kWhat, outputs.size(), inputs.size()));
  }
  auto state = std::make_shared<State>();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    state->inputs.push_back(reachable(inputs[i], kWhat));
    check_fits(inputs[i], outputs[i], kWhat);
    add_output(*state, outputs[i], kWhat);
  }
  const DataType type = type_of(state->inputs, kWhat);
  AsyncOptions with_shape = options;
  with_shape.shape = shapes_of(inputs);
  if (inputs.size() == 1) {
    state->handle = world.allreduce_async(state->inputs[0].data_ptr(), state->results[0].data_ptr(),
                                          count_of(inputs[0]), type, op, with_shape);
  } else {
    std::vector<TensorBuffers> buffers;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      buffers.push_back({.in = state->inputs[i].data_ptr(),
                         .out = state->results[i].data_ptr(),
                         .count = count_of(inputs[i])});
    }
    state->handle = world.grouped_allreduce_async(buffers, type, op, with_shape);
  }
  state->handle.then([state](const std::exception_ptr&) {});  // keeps it alive until then
  return TensorHandleMaker::make(std::move(state));
}

TensorHandle broadcast_async(const torch::Tensor& input, const torch::Tensor& output, int root,
                             const AsyncOptions& options, const World& world) {
  constexpr auto kWhat = "broadcast_async";
  auto state = std::make_shared<State>();
  const torch::Tensor from = reachable(input, kWhat);
  check_fits(input, output, kWhat);
  add_output(*state, output, kWhat);
  torch::Tensor& into = state->results[0];
  const DataType type = data_type(from.scalar_type(), "broadcast_async: the tensor");
  if (world.rank() == root && into.data_ptr() != from.data_ptr()) {
    const torch::NoGradGuard guard;
    into.detach().copy_(from);
  }
  AsyncOptions with_shape = options;
  with_shape.shape = shape_of(input);
  state->handle = world.broadcast_async(into.data_ptr(), count_of(into), type, root, with_shape);
  state->handle.then([state](const std::exception_ptr&) {});
  return TensorHandleMaker::make(std::move(state));
}

TensorHandle allgather_async(const Tensors& tensors, const AsyncOptions& options,
                             const World& world) {
  constexpr auto kWhat = "allgather_async";
  auto state = std::make_shared<State>();
  state->inputs = reachable_rows(tensors, kWhat);
  const DataType type = type_of(state->inputs, kWhat);
  std::string what = fmt::format("allgather of {} {}", name(type), all_rows_of(state->inputs));
  return negotiate(state, world, options, std::move(what),
                   [type, places = options_of(tensors)](Communicator& ranks, State& s) {
                     const auto size = static_cast<std::size_t>(ranks.size());
                     const std::size_t members = s.inputs.size();
                     std::vector<std::int64_t> mine;
                     for (const torch::Tensor& tensor : s.inputs) mine.push_back(tensor.size(0));
                     std::vector<std::int64_t> all(members * size);
                     ranks.allgather(mine.data(), all.data(),
                                     std::vector<std::size_t>(size, members), DataType::int64);
                     for (std::size_t i = 0; i < members; ++i) {
                       std::vector<std::int64_t> rows;
                       for (std::size_t r = 0; r < size; ++r) rows.push_back(all[r * members + i]);
                       s.results.push_back(with_rows(s.inputs[i], sum(rows)));
                       ranks.allgather(s.inputs[i].data_ptr(), s.results[i].data_ptr(),
                                       elements(rows, row_elements(s.inputs[i])), type);
                     }
                     send_back_to(s, places);
                   });
}

TensorHandle reducescatter_async(const Tensors& tensors, ReduceOp op, const AsyncOptions& options,
                                 const World& world) {
  constexpr auto kWhat = "reducescatter_async";
  auto state = std::make_shared<State>();
  for (const torch::Tensor& tensor : tensors) {
    state->inputs.push_back(reachable(tensor, kWhat));
    if (tensor.dim() == 0)
      throw InputError("reducescatter_async: a number has no rows to divide among ranks");
  }
  const DataType type = type_of(state->inputs, kWhat);
  reduction::check_elementwise(type, op);
  if (options.prescale != 1.0 || options.postscale != 1.0) engine::check_scalable(type);
  std::string what =
      fmt::format("reducescatter ({}) of {} {}", name(op), name(type), shapes_of(tensors));
  if (options.prescale != 1.0) what += fmt::format(", prescale {}", options.prescale);
  if (options.postscale != 1.0) what += fmt::format(", postscale {}", options.postscale);
  const double prescale = options.prescale;
  const double postscale = options.postscale;
  const Options places = options_of(tensors);
  return negotiate(state, world, options, std::move(what), [=](Communicator& ranks, State& s) {
    for (const torch::Tensor& given : s.inputs) {
      torch::Tensor input = given;
      if (prescale != 1.0) {
        input = torch::empty_like(given);
        engine::scale(given.data_ptr(), input.data_ptr(), count_of(given), type, prescale);
      }
      std::vector<std::int64_t> rows;
      for (int r = 0; r < ranks.size(); ++r)
        rows.push_back(input.size(0) / ranks.size() + (r < input.size(0) % ranks.size() ? 1 : 0));
      torch::Tensor result =
          with_rows(input, static_cast<std::size_t>(rows[static_cast<std::size_t>(ranks.rank())]));
      ranks.reducescatter(input.data_ptr(), result.data_ptr(), elements(rows, row_elements(input)),
                          type, op);
      if (postscale != 1.0)
        engine::scale(result.data_ptr(), result.data_ptr(), count_of(result), type, postscale);
      s.results.push_back(std::move(result));
    }
    send_back_to(s, places);
  });
}

TensorHandle alltoall_async(const torch::Tensor& tensor,
                            const std::optional<std::vector<std::int64_t>>& splits,
                            const AsyncOptions& options, const World& world) {
  constexpr auto kWhat = "alltoall_async";
  auto state = std::make_shared<State>();
  state->inputs.push_back(reachable(tensor, kWhat));
  const torch::Tensor& values = state->inputs[0];
  const DataType type = data_type(values.scalar_type(), "alltoall_async: the tensor");
  if (values.dim() == 0) throw InputError("alltoall_async: a number has no rows to send");
  const std::int64_t rows = values.size(0);
  if (!splits && rows % world.size() != 0) {
    throw InputError(
        fmt::format("alltoall_async: {} rows for {} ranks: expected a multiple, or splits", rows,
                    world.size()));
  }
  std::vector<std::int64_t> sent(static_cast<std::size_t>(world.size()), rows / world.size());
  if (splits) sent = *splits;
  const bool negative = std::ranges::any_of(sent, [](std::int64_t n) { return n < 0; });
  if (sent.size() != static_cast<std::size_t>(world.size()) || negative ||
      static_cast<std::int64_t>(sum(sent)) > rows) {
    throw InputError(
        fmt::format("alltoall_async: splits ({}) of {} rows: expected {} numbers, one a rank, none "
                    "negative, of at "
                    "most {} in all",
                    fmt::join(sent, ", "), rows, world.size(), rows));
  }
  std::string what = fmt::format("alltoall of {} {}", name(type), all_rows_of(state->inputs));
  const Options place{tensor.options()};
  return negotiate(state, world, options, std::move(what), [=](Communicator& ranks, State& s) {
    const torch::Tensor& input = s.inputs[0];
    std::vector<std::int64_t> received(sent.size());
    const std::vector<std::size_t> one(sent.size(), 1);
    ranks.alltoall(sent.data(), one, received.data(), one, DataType::int64);
    s.results.push_back(with_rows(input, sum(received)));
    const std::size_t a_row = row_elements(input);
    ranks.alltoall(input.data_ptr(), elements(sent, a_row), s.results[0].data_ptr(),
                   elements(received, a_row), type);
    send_back_to(s, place);
    s.results.push_back(torch::tensor(received, torch::kInt64));
    s.targets.emplace_back();
  });
}

}  // namespace sullae
