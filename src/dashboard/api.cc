#include "dashboard/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <functional>
#include <utility>

#include "base/request_error.h"
#include "base/version.h"
#include "dashboard/job_answers.h"
#include "dashboard/model_answers.h"
#include "dashboard/page/page.h"
#include "dashboard/pipeline_answers.h"
#include "dashboard/run_answers.h"
#include "http/responses.h"

namespace sullae::dashboard {
namespace {

using nlohmann::json;

constexpr std::size_t kMostHistoryBytes = std::size_t{128} << 20;
constexpr std::string_view kApi = "/api/";

// What the page consists of.
struct File {
  std::string_view path;
  const char* type;
  const std::string& (*text)();
};
constexpr std::array<File, 4> kFiles = {{
    {"/", "text/html; charset=utf-8", page_html},
    {"/dashboard.js", "text/javascript; charset=utf-8", page_script},
    {"/dashboard.css", "text/css; charset=utf-8", page_style},
    {"/icon.svg", "image/svg+xml", page_icon},
}};

// Null where there is none.
const File* find_file(std::string_view path) {
  const auto* const found = std::ranges::find(kFiles, path, &File::path);
  return found == kFiles.end() ? nullptr : found;
}

// Nothing of other hosts, and nobody's frame.
http::Response file_response(const File& file) {
  return {
      .content_type = file.type,
      .body = file.text(),
      .headers = {
          {"Cache-Control", "no-cache"},
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
           "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"}}};
}

// Who asks again is told in a word that nothing is new.
http::Response json_or_unchanged(const json& body, std::string_view known) {
  http::Response response = http::json_response(body);
  const auto tag = fmt::format("\"{:016x}\"", std::hash<std::string>()(response.body));
  // If-None-Match may name several, and proxies that pack answers weaken them: W/"…" (RFC 9110,
  // section 13.1.2).
  if (known == "*" || known.find(tag) != known.npos) response = {.status = 304, .body = {}};
  response.headers = {{"ETag", tag}, {"Cache-Control", "no-cache"}};
  return response;
}

}  // namespace

Api::Api(const std::filesystem::path& folder, http::Access access, http::KnownHosts hosts)
    : access_(std::move(access)),
      hosts_(std::move(hosts)),
      catalogue_(folder, cluster_.jobs_folder()),
      histories_(kMostHistoryBytes) {
  const auto need_cluster = [this] {
    if (!cluster_.is_there()) throw RequestError(Refusal::not_found, "there is no cluster here");
  };
  answers_ = {
      {"overview",
       [this](const std::string&) {
         return overview();
       }},
      {"runs",
       [this](const std::string& query) {
         return list_runs(*catalogue_.contents(), known_jobs().get(), query);
       }},
      {"run",
       [this](const std::string& query) {
         return show_run(*catalogue_.contents(), known_jobs().get(), histories_, query);
       }},
      {"curves",
       [this](const std::string& query) {
         return curves(*catalogue_.contents(), histories_, query);
       }},
      {"jobs",
       [this, need_cluster](const std::string&) {
         need_cluster();
         return list_jobs(*cluster_.now());
       }},
      {"job",
       [this, need_cluster](const std::string& query) {
         need_cluster();
         return show_job(*cluster_.now(), *cluster_.jobs_folder(), *catalogue_.contents(), query);
       }},
      {"job-log",
       [this, need_cluster](const std::string& query) {
         need_cluster();
         return job_log(*cluster_.now(), *cluster_.jobs_folder(), query);
       }},
      {"pipelines",
       [this](const std::string&) {
         return list_pipelines(catalogue_);
       }},
      {"pipeline",
       [this](const std::string& query) {
         return show_pipeline(catalogue_, query);
       }},
      {"step-log",
       [this](const std::string& query) {
         return step_log(catalogue_, query);
       }},
      {"models",
       [this](const std::string&) {
         return list_models(catalogue_);
       }},
  };
}

Api::~Api() {
  engine_.stop();
  workers_.join();
  engine_.join();
}

std::shared_ptr<const ClusterState> Api::known_jobs() {
  if (cluster_.is_there() && !is_asking_.exchange(true)) {
    boost::asio::post(engine_, [this] {
      cluster_.now();
      is_asking_ = false;
    });
  }
  return cluster_.last();
}

json Api::overview() {
  const auto contents = catalogue_.contents();
  return {{"version", kVersion},
          {"folder", catalogue_.root().string()},
          {"runs", contents->runs.size()},
          {"pipelines", contents->found.pipelines.size()},
          {"models", contents->found.models.size()},
          {"cluster", cluster_.is_there()},
          {"problems", contents->found.problems}};
}

void Api::check(const http::Request& head) const {
  if (access_.open()) hosts_.check(head);
  if (head.method != "GET" && head.method != "HEAD")
    throw RequestError(
        Refusal::wrong_method,
        fmt::format("{} {}: expected GET: nothing is changed here", head.method, head.path),
        "GET, HEAD");
  const auto length = head.header("content-length");
  if (!head.header("transfer-encoding").empty() || (!length.empty() && length != "0"))
    sullae::refuse(fmt::format("{} takes no body", head.method));
  if (find_file(head.path) != nullptr) return;
  access_.check(head.header("authorization"), http::Role::read);
  if (!head.path.starts_with(kApi) || !answers_.contains(head.path.substr(kApi.size())))
    throw RequestError(Refusal::not_found, fmt::format("there is nothing at {}", head.path));
}

void Api::handle(http::Request request, http::Respond respond) {
  if (const auto* const file = find_file(request.path)) return respond(file_response(*file));
  // What waits for the engine keeps nobody else waiting.
  auto& pool = request.path.starts_with("/api/job") ? engine_ : workers_;
  boost::asio::post(pool, [this, request = std::move(request), respond = std::move(respond)] {
    http::attempt(respond, [&] { answer(request, respond); });
  });
}

void Api::answer(const http::Request& request, const http::Respond& respond) {
  const auto& found = answers_.at(request.path.substr(kApi.size()));
  auto response = json_or_unchanged(found(request.query), request.header("if-none-match"));
  // Who asks and does not read must not take all memory.
  if (request.memory && !request.memory->grow_to(request.memory->bytes() + response.body.size()))
    throw RequestError(Refusal::unavailable,
                       "answers that nobody reads take all memory there is: try again later");
  response.memory = request.memory;
  respond(std::move(response));
}

}  // namespace sullae::dashboard
