#include "serve/rest.h"

#include <fmt/format.h>
#include <malloc.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <limits>

#include "base/host.h"
#include "serve/page/page.h"
#include "serve/protocol/infer_json.h"
#include "serve/protocol/json_tensors.h"
#include "serve/protocol/predict.h"
#include "serve/protocol/status_json.h"
#include "serve/repository/repository_metrics.h"
#include "serve/responses.h"

namespace sullae::serve {
namespace {

using nlohmann::json;

constexpr const char* kJsonSize = "Inference-Header-Content-Length";
// A longer body is read and computed elsewhere than in the thread that took it.
constexpr std::size_t kLargeBody = std::size_t{16} << 10;
// The C library keeps memory in pieces: after requests of such size it is asked to give back what it can.
constexpr std::size_t kTrimmedBody = std::size_t{4} << 20;

std::optional<std::size_t> json_size_of(const HttpRequest& request) {
  const auto text = request.header("inference-header-content-length");
  if (text.empty()) return std::nullopt;
  std::size_t size = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || stop != text.data() + text.size())
    throw RequestError(Refusal::invalid, fmt::format("{}: expected a number of bytes", kJsonSize));
  return size;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  auto type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return boost::beast::iequals({type.data(), type.size()}, {kJson.data(), kJson.size()});
}

// A page of another site can send texts and forms without asking, and no JSON.
void need_json(const HttpRequest& head) {
  if (head.method != "POST" || is_json(head.header("content-type"))) return;
  throw RequestError(Refusal::unsupported_type,
                     "expected a header 'Content-Type: application/json': this changes the server");
}

std::int64_t whole_number(const json& object, const char* name, std::int64_t most) {
  const auto found = object.find(name);
  const bool good = found != object.end() && found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)) &&
                    found->get<std::int64_t>() >= 0 && found->get<std::int64_t>() <= most;
  if (!good)
    throw RequestError(Refusal::invalid, "expected {\"version\": N, \"percent\": 0 to 100}");
  return found->get<std::int64_t>();
}

// `answer` responds, or throws what is responded then.
template <class Answer>
void answer_or_fail(const Respond& respond, const Answer& answer) {
  try {
    answer();
  } catch (const std::exception&) {
    respond(failure_response(std::current_exception()));
  }
}

}  // namespace

RestApi::RestApi(Repository& repository, ModelStores& stores, const Access& access,
                 const std::vector<std::string>& hosts)
    : repository_(repository),
      examples_(stores),
      online_(stores),
      access_(access),
      hosts_(hosts),
      large_(static_cast<std::size_t>(available_cpus())),
      images_(static_cast<std::size_t>(available_cpus())) {}

HttpResponse RestApi::refuse(int status, const std::string& message) {
  return json_response({{"error", message}}, status);
}

std::optional<HttpResponse> RestApi::refuse_early(const HttpRequest& head) {
  try {
    check_head(head);
  } catch (const std::exception&) {
    return failure_response(std::current_exception());
  }
  return std::nullopt;
}

void RestApi::gave_up(std::size_t bytes) {
  if (bytes >= kTrimmedBody) boost::asio::post(large_, [] { ::malloc_trim(0); });
}

void RestApi::check_head(const HttpRequest& head) const {
  if (access_.open()) {
    if (const auto objection = hosts_.objection(head.header("host"), head.header("origin"));
        !objection.empty())
      throw RequestError(Refusal::forbidden, objection);
  }
  const Match match = find_route(head);
  const auto length = head.header("content-length");
  // Everybody may ask for some of these: their bodies, which mean nothing, must not take what others need.
  constexpr std::size_t kMostDigits = 5;
  if (match.route.method == "GET" &&
      (!head.header("transfer-encoding").empty() || length.size() > kMostDigits))
    throw RequestError(Refusal::invalid, fmt::format("{} takes no body", head.method));
  if (match.route.role != Role::none) access_.check(head.header("authorization"), match.route.role);
  if (match.route.role == Role::operate) need_json(head);
  if (!match.model.empty()) repository_.expect(match.model);
}

void RestApi::handle(HttpRequest request, Respond respond) {
  try {
    const auto asked = std::make_shared<Asked>();
    asked->request = std::move(request);
    asked->match = find_route(asked->request);
    const Role role = asked->match.route.role;
    if (role != Role::none)
      asked->author = access_.check(asked->request.header("authorization"), role);
    answer(asked, respond);
  } catch (const std::exception&) {
    respond(failure_response(std::current_exception()));
  }
}

void RestApi::answer(const AskedPointer& asked, const Respond& respond) {
  const auto& [route, model, version] = asked->match;
  const auto elsewhere = [&](boost::asio::thread_pool& pool) {
    boost::asio::post(pool, [this, asked, respond] {
      answer_or_fail(respond, [&] { respond(counted(*asked, answer_slowly(*asked))); });
    });
  };
  switch (route.call) {
    case Call::page:
      return respond({.content_type = "text/html; charset=utf-8",
                      .body = page(),
                      .headers = {{"Cache-Control", "no-cache"},
                                  {"X-Frame-Options", "DENY"},
                                  {"X-Content-Type-Options", "nosniff"}}});
    case Call::server_metadata:
      return respond(json_response(server_metadata()));
    case Call::live:
      return respond(json_response({{"live", true}}));
    case Call::ready: {
      const bool ready = repository_.ready();
      return respond(json_response({{"ready", ready}}, ready ? 200 : 503));
    }
    case Call::model_ready:
      repository_.look_up(model, version);
      return respond(json_response({{"name", model}, {"ready", true}}));
    case Call::infer:
    case Call::predict: {
      const bool images = repository_.look_up(model, version)->model().codec().decodes_slowly();
      if (!images && asked->request.body.size() <= kLargeBody) return compute(*asked, respond);
      boost::asio::post(images ? images_ : large_, [this, asked, respond] {
        answer_or_fail(respond, [&] { compute(*asked, respond); });
        if (asked->request.body.size() >= kTrimmedBody) ::malloc_trim(0);
      });
      return;
    }
    case Call::load:
    case Call::roll_back:
    case Call::set_canary:
    case Call::reload:
      return elsewhere(operators_);
    case Call::train:
      return elsewhere(writers_);
    case Call::post_examples: {
      const bool images = repository_.look_up(model, "")->model().codec().decodes_slowly();
      boost::asio::post(images ? images_ : writers_, [this, asked, respond] {
        answer_or_fail(respond, [&] {
          const auto chosen = repository_.look_up(asked->match.model, "");
          examples_.post(asked->match.model, chosen->model().codec(), asked->request, asked->author,
                         respond);
        });
      });
      return;
    }
    default:
      return elsewhere(disk_);
  }
}

void RestApi::compute(const Asked& asked, const Respond& respond) {
  asked.match.route.call == Call::infer ? infer(asked, respond) : predict(asked, respond);
}

HttpResponse RestApi::answer_slowly(const Asked& asked) {
  const auto& [route, model, version] = asked.match;
  switch (route.call) {
    case Call::metrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()};
    case Call::model_metadata: {
      const auto chosen = repository_.look_up(model, version);
      return json_response(model_metadata(repository_.status(model), chosen->model()));
    }
    case Call::repository_index:
      return json_response(repository_index(repository_.index()));
    case Call::models:
      return json_response(overview(repository_.index()));
    case Call::version_states: {
      auto status = repository_.status(model);
      if (!version.empty()) {
        const auto chosen = repository_.look_up(model, version);
        std::erase_if(status.versions, [&](const auto& v) { return v.number != chosen->number(); });
      }
      return json_response(version_states(status));
    }
    case Call::train:
      return online_.call(model, asked.author);
    case Call::get_examples: {
      const auto chosen = repository_.look_up(model, "");
      return examples_.get(model, chosen->model().codec(), asked.request.query);
    }
    case Call::online_status:
      return online_.status(model, asked.request.query);
    default:
      return change(asked);
  }
}

HttpResponse RestApi::change(const Asked& asked) {
  const auto& [route, model, version] = asked.match;
  if (route.call == Call::roll_back) return json_response(overview({repository_.roll_back(model)}));
  if (route.call == Call::set_canary) {
    const json body = parse_json(asked.request.body, asked.request.memory.get());
    if (!body.is_object() || body.size() != 2)
      throw RequestError(Refusal::invalid, "expected {\"version\": N, \"percent\": 0 to 100}");
    constexpr std::int64_t kAnyVersion = std::numeric_limits<std::int64_t>::max();
    return json_response(
        overview({repository_.set_canary(model, whole_number(body, "version", kAnyVersion),
                                         static_cast<int>(whole_number(body, "percent", 100)))}));
  }
  return json_response(overview({repository_.reload(model)}));
}

// An answer with much in it is part of the memory for all requests until the client has taken it.
HttpResponse RestApi::counted(const Asked& asked, HttpResponse response) {
  const auto& memory = asked.request.memory;
  if (response.body.size() < kTrimmedBody || !memory) return response;
  if (!memory->grow_to(memory->bytes() + response.body.size()))
    throw RequestError(Refusal::unavailable,
                       "requests and answers of all clients take as much memory as they may "
                       "(--max-inflight-megabytes): try again later");
  response.memory = memory;
  return response;
}

// `respond` keeps the request's part of the memory until there is an answer.
void RestApi::infer(const Asked& asked, const Respond& respond) {
  const auto chosen = repository_.choose(asked.match.model, asked.match.version);
  const HttpRequest& request = asked.request;
  auto parsed = std::make_shared<HttpInferRequest>(
      parse_infer_request(request.body, json_size_of(request), request.memory.get(),
                          [&](std::int64_t rows) { chosen->check_rows(rows); }));
  InferRequest infer_request = std::move(parsed->request);
  parsed->request = {.id = infer_request.id};
  Version::infer(
      chosen, std::move(infer_request),
      [parsed, respond, memory = request.memory](const Version::Result& result) {
        answer_or_fail(respond, [&] {
          if (result.error) std::rethrow_exception(result.error);
          auto written = write_infer_response(result.response, *parsed);
          HttpResponse response{.body = std::move(written.body)};
          if (written.json_size) {
            response.content_type = "application/octet-stream";
            response.headers.emplace_back(kJsonSize, std::to_string(*written.json_size));
          }
          respond(std::move(response));
        });
      },
      asked.arrived);
}

void RestApi::predict(const Asked& asked, const Respond& respond) {
  const auto chosen = repository_.choose(asked.match.model, asked.match.version);
  const HttpRequest& request = asked.request;
  const json body = parse_json(request.body, request.memory.get());
  const PredictForm form = predict_form(body);
  chosen->check_rows(rows_in(body, form));
  Version::infer(
      chosen, predict_request(body, chosen->model().codec()),
      [form, respond, memory = request.memory](const Version::Result& result) {
        answer_or_fail(respond, [&] {
          if (result.error) std::rethrow_exception(result.error);
          respond(json_response(predict_response(result.response.outputs, form)));
        });
      },
      asked.arrived);
}

std::string RestApi::metrics() {
  MetricsText text;
  const auto models = repository_.index();
  write_metrics(models, text);
  std::vector<std::string> names;
  for (const auto& model : models) names.push_back(model.name);
  online_.write_metrics(names, text);
  return text.text();
}

}  // namespace sullae::serve
