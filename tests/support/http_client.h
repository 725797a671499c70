// A client's end of one HTTP connection, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace sullae::testing {

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case

  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

/// Throws std::runtime_error where the connection breaks.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();

  HttpAnswer get(const std::string& target) { return ask("GET", target, ""); }
  HttpAnswer post(const std::string& target, const std::string& body,
                  const std::map<std::string, std::string>& headers = {}) {
    return ask("POST", target, body, headers);
  }
  HttpAnswer post(const std::string& target, const nlohmann::json& body) {
    return post(target, body.dump());
  }
  HttpAnswer ask(const std::string& method, const std::string& target, const std::string& body,
                 const std::map<std::string, std::string>& headers = {});

  /// Bytes as they are.
  void send(const std::string& bytes);
  /// Ends this side's half of the connection.
  void finish_sending();
  HttpAnswer read_answer();
  /// Of HEAD, which has no body whatever its Content-Length says.
  HttpAnswer read_head();
  /// Whether the server ends the connection without another byte.
  bool is_closed();

 private:
  HttpAnswer read(bool with_body);
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::testing
