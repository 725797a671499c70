#include <fmt/format.h>

#include <optional>

#include "base/number.h"
#include "base/request_error.h"
#include "http/responses.h"
#include "serve/protocol/infer_json.h"
#include "serve/protocol/json_tensors.h"
#include "serve/protocol/predict.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kJsonSize = "Inference-Header-Content-Length";

std::optional<std::size_t> json_size_of(const http::Request& request) {
  const auto text = request.header("inference-header-content-length");
  if (text.empty()) return std::nullopt;
  const auto size = number_in<std::size_t>(text);
  if (!size) refuse(fmt::format("{}: expected a number of bytes", kJsonSize));
  return size;
}

// `respond` keeps the request's part of the memory until there is an answer.
void infer(Repository& repository, const Call& call, const http::Respond& respond) {
  const auto chosen = repository.choose(call.model, call.version);
  const http::Request& request = call.request;
  const auto json_size = json_size_of(request);
  auto parsed = std::make_shared<HttpInferRequest>(
      json_size == 0 ? parse_raw_request(request.body, chosen->model().codec().inputs())
                     : parse_infer_request(request.body, json_size, request.memory.get(),
                                           [&](std::int64_t rows) { chosen->check_rows(rows); }));
  InferRequest infer_request = std::move(parsed->request);
  parsed->request = {.id = infer_request.id};
  Version::infer(
      chosen, std::move(infer_request),
      [parsed, respond, memory = request.memory](const Version::Result& result) {
        attempt(respond, [&] {
          if (result.error) std::rethrow_exception(result.error);
          auto written = write_infer_response(result.response, *parsed, memory.get());
          http::Response response{.body = std::move(written.body)};
          if (written.json_size) {
            response.content_type = "application/octet-stream";
            response.headers.emplace_back(kJsonSize, std::to_string(*written.json_size));
          }
          respond(counted(memory, std::move(response)));
        });
      },
      call.arrived);
}

void predict(Repository& repository, const Call& call, const http::Respond& respond) {
  const auto chosen = repository.choose(call.model, call.version);
  const http::Request& request = call.request;
  const json body = parse_json(request.body, request.memory.get());
  const PredictForm form = predict_form(body);
  chosen->check_rows(rows_in(body, form));
  Version::infer(
      chosen, predict_request(body, chosen->model().codec()),
      [form, respond, memory = request.memory](const Version::Result& result) {
        attempt(respond, [&] {
          if (result.error) std::rethrow_exception(result.error);
          if (memory) {
            std::size_t elements = 0;
            for (const InferTensor& tensor : result.response.outputs)
              elements += element_count(tensor.shape, tensor.name);
            reserve_answer(*memory, elements);
          }
          respond(counted(memory,
                          http::json_response(predict_response(result.response.outputs, form))));
        });
      },
      call.arrived);
}

}  // namespace

std::vector<Route> inference_routes(Repository& repository, Workers& workers) {
  const auto by_tensors = computed(repository, workers, infer);
  const auto by_instances = computed(repository, workers, predict);
  return {
      // Open Inference Protocol v2.
      {"POST", "v2/models/{model}/infer", http::Role::infer, by_tensors},
      {"POST", "v2/models/{model}/versions/{version}/infer", http::Role::infer, by_tensors},
      // TensorFlow Serving's.
      {"POST", "v1/models/{model}:predict", http::Role::infer, by_instances},
      {"POST", "v1/models/{model}/versions/{version}:predict", http::Role::infer, by_instances},
  };
}

}  // namespace sullae::serve
