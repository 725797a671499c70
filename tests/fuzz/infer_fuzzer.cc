// Inference requests as they come over HTTP: the first two bytes say how much of the rest is JSON.
#include "fuzz/memory_file.h"
#include "serve/protocol/infer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  if (size < 2) return 0;
  const std::size_t json_size = data[0] | static_cast<std::size_t>(data[1]) << 8;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  fuzz::expect_no_more_than_an_error([&] {
    std::optional<std::size_t> length;
    if (json_size > 0) length = json_size;
    const auto parsed = serve::parse_infer_request(body, length);
    // What was read can be written.
    serve::write_infer_response(
        {.model_name = "m", .model_version = "1", .outputs = parsed.request.inputs}, parsed);
  });
  return 0;
}
