#include "serve/rest/workers.h"

#include <fmt/format.h>
#include <malloc.h>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/host.h"
#include "base/request_error.h"
#include "http/responses.h"
#include "serve/protocol/json_tensors.h"

namespace sullae::serve {
namespace {

// A longer body is read and computed elsewhere than in the thread that took it.
constexpr std::size_t kLargeBody = std::size_t{16} << 10;

}  // namespace

http::Response counted(const std::shared_ptr<http::Reservation>& memory, http::Response response) {
  if (response.body.size() < kTrimmedBytes || !memory) return response;
  if (!memory->grow_to(memory->bytes() + response.body.size()))
    throw RequestError(Refusal::unavailable, http::kNoMemoryLeft);
  response.memory = memory;
  return response;
}

void expect_no_body(const Call& call, const char* remedy) {
  if (call.request.body.empty()) return;
  const nlohmann::json body = parse_json(call.request.body, call.request.memory.get());
  if (!body.is_object() || !body.empty())
    refuse(fmt::format("expected no body, or {{}}, for a call {}", remedy));
}

Workers::Workers()
    : large(static_cast<std::size_t>(available_cpus())),
      images(static_cast<std::size_t>(available_cpus())) {}

Handler here(Answer answer) {
  return [answer = std::move(answer)](const CallPointer& call, const http::Respond& respond) {
    respond(answer(*call));
  };
}

Handler in(boost::asio::thread_pool& pool, Answer answer) {
  return
      [&pool, answer = std::move(answer)](const CallPointer& call, const http::Respond& respond) {
        boost::asio::post(pool, [answer, call, respond] {
          http::attempt(respond, [&] { respond(counted(call->request.memory, answer(*call))); });
        });
      };
}

Handler computed(Repository& repository, Workers& workers, Compute compute) {
  return [&repository, &workers, compute = std::move(compute)](const CallPointer& call,
                                                               const http::Respond& respond) {
    const bool images =
        repository.look_up(call->model, call->version)->model().codec().decodes_slowly();
    if (!images && call->request.body.size() <= kLargeBody)
      return compute(repository, *call, respond);
    boost::asio::post(images ? workers.images : workers.large,
                      [&repository, compute, call, respond] {
                        http::attempt(respond, [&] { compute(repository, *call, respond); });
                        if (call->request.body.size() >= kTrimmedBytes) ::malloc_trim(0);
                      });
  };
}

}  // namespace sullae::serve
