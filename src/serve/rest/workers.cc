#include "serve/rest/workers.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "base/host.h"
#include "base/request_error.h"
#include "http/responses.h"

namespace sullae::serve {
namespace {

http::Response counted(const Call& call, http::Response response) {
  const auto& memory = call.request.memory;
  if (response.body.size() < kTrimmedBytes || !memory) return response;
  if (!memory->grow_to(memory->bytes() + response.body.size()))
    throw RequestError(Refusal::unavailable, http::kNoMemoryLeft);
  response.memory = memory;
  return response;
}

}  // namespace

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
          http::attempt(respond, [&] { respond(counted(*call, answer(*call))); });
        });
      };
}

}  // namespace sullae::serve
