#include <fmt/format.h>

#include "sullae/torch.h"
#include "torch/tensor_checks.h"
#include "torch/tensor_type.h"

namespace sullae {
namespace {

void check_dense(const torch::Tensor& tensor, const char* what) {
  check_defined(tensor, what);
  if (tensor.layout() != torch::kStrided)
    throw InputError(fmt::format("{}: the tensor is sparse: expected a dense one", what));
}

Handle keep_until_done(const torch::Tensor& tensor, const Handle& handle) {
  handle.then([tensor](const std::exception_ptr&) {});
  return handle;
}

}  // namespace

void send(const torch::Tensor& tensor, int to, int tag, const World& world) {
  check_dense(tensor, "send");
  const torch::Tensor values = tensor.detach().to(torch::kCPU).contiguous();
  world.send(values.data_ptr(), count_of(values),
             data_type(values.scalar_type(), "send: the tensor"), to, tag);
}

int receive(const torch::Tensor& tensor, int from, int tag, const World& world) {
  check_dense(tensor, "receive");
  check_writable(tensor, "receive");
  const torch::NoGradGuard guard;
  const torch::Tensor values =
      is_plain(tensor) ? tensor.detach()
                       : torch::empty(tensor.sizes(), tensor.options().device(torch::kCPU));
  const int source =
      world.receive(values.data_ptr(), count_of(values),
                    data_type(values.scalar_type(), "receive: the tensor"), from, tag);
  if (is_plain(tensor)) {
    note_write(tensor);
  } else {
    tensor.copy_(values);
  }
  return source;
}

Handle send_async(const torch::Tensor& tensor, int to, int tag, const World& world) {
  check_defined(tensor, "send_async");
  check_plain(tensor, "send_async");
  const DataType type = data_type(tensor.scalar_type(), "send_async: the tensor");
  return keep_until_done(tensor,
                         world.send_async(tensor.data_ptr(), count_of(tensor), type, to, tag));
}

Handle receive_async(const torch::Tensor& tensor, int from, int tag, const World& world) {
  check_writable(tensor, "receive_async");
  check_plain(tensor, "receive_async");
  note_write(tensor);
  const DataType type = data_type(tensor.scalar_type(), "receive_async: the tensor");
  return keep_until_done(tensor,
                         world.receive_async(tensor.data_ptr(), count_of(tensor), type, from, tag));
}

}  // namespace sullae
