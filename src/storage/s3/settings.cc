#include "storage/s3/settings.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/ascii.h"
#include "base/file.h"

namespace sullae::storage {
namespace {

using nlohmann::json;

std::filesystem::path file_of(const Environment& environment, const char* variable,
                              const char* name) {
  if (const auto file = environment(variable)) return *file;
  return std::filesystem::path(environment("HOME").value_or("")) / ".aws" / name;
}

std::string profile_of(const Environment& environment) {
  return environment("AWS_PROFILE").value_or("default");
}

using Section = Sections::mapped_type;

Section config_of(const Environment& environment) {
  const auto sections = read_sections(file_of(environment, "AWS_CONFIG_FILE", "config"));
  const auto profile = profile_of(environment);
  const auto found = sections.find(profile == "default" ? profile : "profile " + profile);
  return found == sections.end() ? Section() : found->second;
}

std::optional<Credentials> of_section(const Section& section, const std::string& source) {
  const auto value = [&](const char* name) {
    const auto found = section.find(name);
    return found == section.end() ? std::string() : found->second;
  };
  Credentials credentials{.access_key = value("aws_access_key_id"),
                          .secret_key = value("aws_secret_access_key"),
                          .session_token = value("aws_session_token"),
                          .source = source};
  if (credentials.access_key.empty() || credentials.secret_key.empty()) return std::nullopt;
  return credentials;
}

constexpr const char* kContainer = "the container";
constexpr const char* kInstance = "the instance's role";

std::string describe(const char* source, const std::string& url) {
  return fmt::format("the credentials of {} ({})", source, url);
}

// A service that has answered before is busy for a moment, now and then.
HttpResponse ask(Http& http, const char* source, const HttpRequest& request, bool is_known) {
  if (!is_known) return http.send(request);
  return send_with_retries(http, describe(source, request.url), [&] { return request; },
                           {.problem = [](const HttpResponse& answer) {
                             return fmt::format("the answer is {}", answer.status);
                           }});
}

void expect_ok(const HttpResponse& answer, const char* source, const std::string& url) {
  if (!answer.ok())
    throw InputError(fmt::format("{}: the answer is {}", describe(source, url), answer.status));
}

// As containers' and instances' services answer.
Credentials of_service(Http& http, const char* source, const HttpRequest& request, bool is_known) {
  const HttpResponse answer = ask(http, source, request, is_known);
  expect_ok(answer, source, request.url);
  try {
    const json said = json::parse(answer.body);
    return Credentials{.access_key = said.at("AccessKeyId"),
                       .secret_key = said.at("SecretAccessKey"),
                       .session_token = said.value("Token", ""),
                       .source = source};
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: {}", describe(source, request.url), error.what()));
  }
}

constexpr std::size_t kMostTokenBytes = std::size_t{64} << 10;

std::optional<Credentials> of_container(const Environment& environment, Http& http, bool is_known) {
  auto url = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"))
    url = "http://169.254.170.2" + *relative;
  if (!url) return std::nullopt;
  std::vector<std::string> headers;
  // A file is written anew when what it holds is about to expire.
  if (const auto file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    headers.push_back("Authorization: " + trimmed(read_file(*file, kMostTokenBytes)));
  } else if (const auto token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
    headers.push_back("Authorization: " + *token);
  }
  return of_service(http, kContainer, {.url = *url, .headers = std::move(headers)}, is_known);
}

// IMDSv2: a token first, which a redirected request could not have.
std::optional<Credentials> of_instance(const Environment& environment, Http& http, bool is_known) {
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  const std::string service =
      environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254");
  try {
    const HttpRequest for_token{.method = "PUT",
                                .url = service + "/latest/api/token",
                                .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 300"},
                                .connect_seconds = 1};
    const auto token = ask(http, kInstance, for_token, is_known);
    if (is_known) expect_ok(token, kInstance, for_token.url);
    if (!token.ok()) return std::nullopt;
    const std::vector<std::string> headers = {"X-aws-ec2-metadata-token: " + token.body};
    const std::string roles = service + "/latest/meta-data/iam/security-credentials/";
    const auto role = ask(http, kInstance, {.url = roles, .headers = headers}, is_known);
    if (is_known) expect_ok(role, kInstance, roles);
    if (!role.ok()) return std::nullopt;
    const std::string name = trimmed(role.body.substr(0, role.body.find('\n')));
    return of_service(http, kInstance, {.url = roles + name, .headers = headers}, is_known);
  } catch (const ConnectionError&) {
    return std::nullopt;  // this is no such instance
  }
}

}  // namespace

Sections read_sections(const std::filesystem::path& file) {
  Sections sections;
  std::ifstream stream(file);
  std::string section;
  for (std::string line; std::getline(stream, line);) {
    const std::string text = trimmed(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (text.front() == '[' && text.back() == ']') {
      section = trimmed(text.substr(1, text.size() - 2));
      continue;
    }
    const auto equals = text.find('=');
    if (equals == std::string::npos) continue;
    sections[section][trimmed(text.substr(0, equals))] = trimmed(text.substr(equals + 1));
  }
  return sections;
}

S3Settings read_s3_settings(const Environment& environment) {
  S3Settings settings;
  const auto config = config_of(environment);
  const auto take = [&](const char* name, std::initializer_list<const char*> variables,
                        std::string& into) {
    if (const auto found = config.find(name); found != config.end()) into = found->second;
    for (const char* variable : variables) {
      const auto value = environment(variable);
      if (!value) continue;
      into = *value;
      return;
    }
  };
  take("region", {"AWS_REGION", "AWS_DEFAULT_REGION"}, settings.region);
  take("endpoint_url", {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, settings.endpoint);
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.empty() && !settings.endpoint.starts_with("http://") &&
      !settings.endpoint.starts_with("https://"))
    throw InputError(
        fmt::format("the endpoint of S3 is '{}': expected http://HOST:PORT or https://HOST",
                    settings.endpoint));
  return settings;
}

Credentials find_credentials(const Environment& environment, Http& http,
                             const std::string& source) {
  const auto access_key = environment("AWS_ACCESS_KEY_ID");
  const auto secret_key = environment("AWS_SECRET_ACCESS_KEY");
  if (access_key && secret_key)
    return {.access_key = *access_key,
            .secret_key = *secret_key,
            .session_token = environment("AWS_SESSION_TOKEN").value_or(""),
            .source = "AWS_ACCESS_KEY_ID"};
  if (access_key.has_value() != secret_key.has_value())
    throw InputError(fmt::format("s3: {} is set, and {} is not",
                                 access_key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                                 access_key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
  const auto file = file_of(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const auto profile = profile_of(environment);
  const auto sections = read_sections(file);
  const auto found = sections.find(profile);
  auto section = found == sections.end() ? Section() : found->second;
  if (auto credentials = of_section(section, file.string())) return *credentials;
  const auto config_file = file_of(environment, "AWS_CONFIG_FILE", "config");
  const auto config = config_of(environment);
  if (auto credentials = of_section(config, config_file.string())) return *credentials;
  // What a profile stands for without keys, the container or the instance is not.
  section.insert(config.begin(), config.end());
  for (const char* way : {"role_arn", "credential_process", "sso_session", "sso_start_url",
                          "web_identity_token_file"}) {
    if (section.contains(way))
      throw InputError(fmt::format(
          "s3: profile '{0}' has {1}, which is not asked: expected keys, as `aws configure "
          "export-credentials --profile {0} --format env` prints them",
          profile, way));
  }
  if (section.empty() && environment("AWS_PROFILE"))
    throw InputError(fmt::format("s3: AWS_PROFILE: there is no profile '{}' in {} or {}", profile,
                                 file.string(), config_file.string()));
  if (auto credentials = of_container(environment, http, source == kContainer)) return *credentials;
  // The instance's role would be somebody else.
  if (environment("AWS_WEB_IDENTITY_TOKEN_FILE"))
    throw InputError(
        "s3: AWS_WEB_IDENTITY_TOKEN_FILE: credentials by a web identity are not asked for: "
        "expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a container's "
        "credentials (EKS Pod Identity)");
  if (auto credentials = of_instance(environment, http, source == kInstance)) return *credentials;
  throw InputError(fmt::format(
      "s3: there are no credentials: expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the "
      "profile '{}' in {}",
      profile, file.string()));
}

}  // namespace sullae::storage
