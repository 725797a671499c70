// Inference requests as they come over gRPC: what is read was counted first.
#include "fuzz/memory_file.h"
#include "serve/grpc/grpc_tensors.h"
#include "serve/grpc/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  const grpc::Slice slice(data, size);
  const grpc::ByteBuffer wire(&slice, 1);
  fuzz::expect_no_more_than_an_error([&] {
    serve::Budget budget(std::size_t{1} << 30);
    serve::Reservation memory(budget);
    inference::ModelInferRequest message;
    serve::parse(wire, memory, message);
    if (message.SpaceUsedLong() > memory.bytes()) __builtin_trap();
    serve::from_grpc(std::move(message), [](std::int64_t) {});
  });
  return 0;
}
