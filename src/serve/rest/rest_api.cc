#include "serve/rest/rest_api.h"

#include <fmt/format.h>
#include <malloc.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core/string.hpp>

#include "base/request_error.h"
#include "http/responses.h"
#include "serve/protocol/json_tensors.h"
#include "serve/rest/routes.h"

namespace sullae::serve {
namespace {

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  auto type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return boost::beast::iequals({type.data(), type.size()}, {kJson.data(), kJson.size()});
}

// A page of another site can send texts and forms without asking, and no JSON; what it sends
// without a type has an origin.
void need_json(const http::Request& head) {
  if (head.method != "POST" || is_json(head.header("content-type"))) return;
  if (head.header("content-type").empty() && head.header("origin").empty()) return;
  throw RequestError(Refusal::unsupported_type,
                     "expected a header 'Content-Type: application/json': this changes the server");
}

}  // namespace

RestApi::RestApi(Repository& repository, online::ModelStores& stores, Generations& generations,
                 const http::Access& access, http::KnownHosts hosts)
    : repository_(repository),
      examples_(stores),
      online_(stores),
      access_(access),
      hosts_(std::move(hosts)) {
  router_.add(server_routes(repository_, online_, workers_));
  router_.add(model_routes(repository_, workers_));
  router_.add(inference_routes(repository_, workers_));
  router_.add(generation_routes(repository_, generations, workers_));
  router_.add(operator_routes(repository_, workers_));
  router_.add(sample_routes(repository_, examples_, online_, workers_));
}

void RestApi::gave_up(std::size_t bytes) {
  if (bytes >= kTrimmedBytes) boost::asio::post(workers_.large, [] { ::malloc_trim(0); });
}

void RestApi::check(const http::Request& head) const {
  if (access_.open()) hosts_.check(head);
  const Match match = router_.find(head);
  const auto coding = head.header("content-encoding");
  if (!coding.empty() && !boost::beast::iequals({coding.data(), coding.size()}, "identity"))
    throw RequestError(Refusal::unsupported_type,
                       fmt::format("Content-Encoding '{}': expected a body as it is, without one",
                                   shorten(std::string(coding))));
  const auto length = head.header("content-length");
  // Everybody may ask for some of these: their bodies, which mean nothing, must not take what
  // others need.
  constexpr std::size_t kMostDigits = 5;
  if (match.route->method == "GET" &&
      (!head.header("transfer-encoding").empty() || length.size() > kMostDigits))
    sullae::refuse(fmt::format("{} takes no body", head.method));
  if (match.route->role != http::Role::none)
    access_.check(head.header("authorization"), match.route->role);
  // With tokens no page of another site can: it has none.
  if (match.route->role == http::Role::operate && access_.open()) need_json(head);
  if (!match.model.empty() && match.route->model == Route::Model::served)
    repository_.expect(match.model);
}

void RestApi::handle(http::Request request, http::Respond respond) {
  http::attempt(respond, [&] {
    const auto call = std::make_shared<Call>();
    call->request = std::move(request);
    auto match = router_.find(call->request);
    call->model = std::move(match.model);
    call->version = std::move(match.version);
    const http::Role role = match.route->role;
    if (role != http::Role::none)
      call->author = access_.check(call->request.header("authorization"), role);
    match.route->handler(call, respond);
  });
}

}  // namespace sullae::serve
