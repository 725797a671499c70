#include "serve/rest.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <charconv>

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

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    result += coded ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return result;
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.push_back(percent_decoded(path.substr(0, slash)));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

void need_method(const HttpRequest& request, const char* method) {
  if (request.method != method)
    throw RequestError(Refusal::invalid,
                       fmt::format("{} {}: expected {}", request.method, request.path, method));
}

std::optional<std::size_t> json_size_of(const HttpRequest& request) {
  const auto text = request.header("inference-header-content-length");
  if (text.empty()) return std::nullopt;
  std::size_t size = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || stop != text.data() + text.size())
    throw RequestError(Refusal::invalid, fmt::format("{}: expected a number of bytes", kJsonSize));
  return size;
}

// "name" and "action" of "name:action"; a name may hold no colon.
std::pair<std::string, std::string> split_action(const std::string& segment) {
  const auto colon = segment.find(':');
  if (colon == std::string::npos) return {segment, ""};
  return {segment.substr(0, colon), segment.substr(colon + 1)};
}

}  // namespace

std::string RestApi::need(const HttpRequest& request, Role role) const {
  return access_.check(request.header("authorization"), role);
}

HttpResponse RestApi::refuse(int status, const std::string& message) {
  return json_response({{"error", message}}, status);
}

void RestApi::handle(HttpRequest request, Respond respond) {
  try {
    const Path path = split_path(request.path);
    if (handle_server(request, path, respond)) return;
    if (!path.empty() && path[0] == "v2" && handle_v2(request, path, respond)) return;
    if (!path.empty() && path[0] == "v1" && handle_v1(request, path, respond)) return;
    throw RequestError(Refusal::not_found, fmt::format("there is nothing at {}", request.path));
  } catch (const std::exception&) {
    respond(failure_response(std::current_exception()));
  }
}

bool RestApi::handle_server(const HttpRequest& request, const Path& path, const Respond& respond) {
  if (path.empty()) {
    need_method(request, "GET");
    respond({.content_type = "text/html; charset=utf-8",
             .body = page(),
             .headers = {{"Cache-Control", "no-cache"}}});
    return true;
  }
  if (path == Path{"metrics"}) {
    need_method(request, "GET");
    need(request, Role::read);
    respond({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics()});
    return true;
  }
  return false;
}

bool RestApi::handle_v2(HttpRequest& request, const Path& path, const Respond& respond) {
  if (path.size() == 1) {
    need_method(request, "GET");
    respond(json_response(server_metadata()));
    return true;
  }
  if (path[1] == "health" && path.size() == 3) {
    need_method(request, "GET");
    const bool live = path[2] == "live";
    if (!live && path[2] != "ready") return false;
    const bool good = live || repository_.ready();
    respond(json_response({{path[2], good}}, good ? 200 : 503));
    return true;
  }
  if (path[1] == "repository") {
    if (path.size() == 3 && path[2] == "index") {
      need(request, Role::read);
      respond(json_response(repository_index(repository_.index())));
      return true;
    }
    if (path.size() == 5 && path[2] == "models" && path[4] == "load") {
      operate(request, path[3], "reload", respond);
      return true;
    }
    return false;
  }
  if (path[1] != "models" || path.size() < 3) return false;
  std::string version;
  std::size_t next = 3;
  if (path.size() >= 5 && path[3] == "versions") {
    version = path[4];
    next = 5;
  }
  const std::string action = path.size() > next ? path[next] : "";
  if (path.size() > next + 1) return false;
  if (action == "infer") {
    infer(request, path[2], version, respond);
  } else if (action == "ready") {
    repository_.choose(path[2], version);
    respond(json_response({{"name", path[2]}, {"ready", true}}));
  } else if (action.empty()) {
    need_method(request, "GET");
    need(request, Role::read);
    const auto chosen = repository_.choose(path[2], version);
    respond(json_response(model_metadata(repository_.status(path[2]), chosen->model())));
  } else {
    return false;
  }
  return true;
}

bool RestApi::handle_v1(HttpRequest& request, const Path& path, const Respond& respond) {
  if (path.size() < 2 || path[1] != "models") return false;
  if (path.size() == 2) {
    need_method(request, "GET");
    need(request, Role::read);
    respond(json_response(overview(repository_.index())));
    return true;
  }
  if (path.size() == 3) {
    const auto [model, action] = split_action(path[2]);
    if (action == "predict") {
      predict(request, model, "", respond);
    } else if (action.empty()) {
      need_method(request, "GET");
      need(request, Role::read);
      respond(json_response(version_states(repository_.status(model))));
    } else {
      operate(request, model, action, respond);
    }
    return true;
  }
  if (path.size() == 4 && path[3] == "examples") {
    handle_examples(request, path[2], respond);
    return true;
  }
  if (path.size() == 4 && path[3] == "online") {
    handle_online(request, path[2], respond);
    return true;
  }
  if (path.size() == 5 && path[3] == "versions") {
    const auto [version, action] = split_action(path[4]);
    if (action == "predict") {
      predict(request, path[2], version, respond);
      return true;
    }
    if (action.empty()) {
      need_method(request, "GET");
      need(request, Role::read);
      const auto chosen = repository_.choose(path[2], version);
      auto status = repository_.status(path[2]);
      std::erase_if(status.versions, [&](const auto& v) { return v.number != chosen->number(); });
      respond(json_response(version_states(status)));
      return true;
    }
  }
  return false;
}

void RestApi::infer(const HttpRequest& request, const std::string& model,
                    const std::string& version, const Respond& respond) {
  need_method(request, "POST");
  need(request, Role::infer);
  const auto chosen = repository_.choose(model, version);
  auto parsed =
      std::make_shared<HttpInferRequest>(parse_infer_request(request.body, json_size_of(request)));
  InferRequest infer_request = std::move(parsed->request);
  parsed->request = {.id = infer_request.id};
  Version::infer(chosen, std::move(infer_request), [parsed, respond](Version::Result result) {
    if (result.error) return respond(failure_response(result.error));
    auto written = write_infer_response(result.response, *parsed);
    HttpResponse response{.body = std::move(written.body)};
    if (written.json_size) {
      response.content_type = "application/octet-stream";
      response.headers.emplace_back(kJsonSize, std::to_string(*written.json_size));
    }
    respond(std::move(response));
  });
}

void RestApi::predict(const HttpRequest& request, const std::string& model,
                      const std::string& version, const Respond& respond) {
  need_method(request, "POST");
  need(request, Role::infer);
  const auto chosen = repository_.choose(model, version);
  const json body = parse_json(request.body);
  const PredictForm form = predict_form(body);
  Version::infer(chosen, predict_request(body, chosen->model().codec()),
                 [form, respond](Version::Result result) {
                   if (result.error) return respond(failure_response(result.error));
                   respond(json_response(predict_response(result.response.outputs, form)));
                 });
}

void RestApi::handle_examples(const HttpRequest& request, const std::string& model,
                              const Respond& respond) {
  const std::string author = need(request, Role::operate);
  const auto chosen = repository_.choose(model, "");
  if (request.method == "GET") {
    respond(examples_.get(model, chosen->model().codec(), request.query));
  } else {
    need_method(request, "POST");
    examples_.post(model, chosen->model().codec(), request.body, author, respond);
  }
}

void RestApi::handle_online(const HttpRequest& request, const std::string& model,
                            const Respond& respond) {
  need_method(request, "GET");
  need(request, Role::read);
  repository_.expect(model);
  respond(online_.status(model, request.query));
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

void RestApi::operate(const HttpRequest& request, const std::string& model,
                      const std::string& action, const Respond& respond) {
  need_method(request, "POST");
  const std::string author = need(request, Role::operate);
  repository_.expect(model);
  std::function<ModelStatus()> change;
  if (action == "train") return respond(online_.call(model, author));
  if (action == "rollback") {
    change = [this, model] {
      return repository_.roll_back(model);
    };
  } else if (action == "reload") {
    change = [this, model] {
      return repository_.reload(model);
    };
  } else if (action == "canary") {
    const json body = parse_json(request.body);
    if (!body.is_object() || !body.value("version", json()).is_number_integer() ||
        !body.value("percent", json()).is_number_integer())
      throw RequestError(Refusal::invalid, "expected {\"version\": N, \"percent\": 0 to 100}");
    change = [this, model, version = body["version"].get<std::int64_t>(),
              percent = body["percent"].get<int>()] {
      return repository_.set_canary(model, version, percent);
    };
  } else {
    throw RequestError(
        Refusal::not_found,
        fmt::format("there is no call ':{}'; there are predict, rollback, canary, reload and train",
                    action));
  }
  // It may load a version, for which this thread has no time.
  boost::asio::post(operators_, [change = std::move(change), respond] {
    try {
      respond(json_response(overview({change()})));
    } catch (const std::exception&) {
      respond(failure_response(std::current_exception()));
    }
  });
}

}  // namespace sullae::serve
