// The seam between the HTTP server and what answers requests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/budget.h"

namespace sullae::http {

struct Request {
  std::string method;
  /// Without the query.
  std::string path;
  std::string query;
  /// Names in lower case.
  std::map<std::string, std::string, std::less<>> headers;
  std::string body;
  /// What the body, and whatever is made of it, may take of the memory for all requests.
  std::shared_ptr<Reservation> memory;

  /// Empty where there is no such header. `name` in lower case.
  std::string_view header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

/// Gives the next piece of a body, empty at its end, to what it is called with: once, at once or
/// later, from any thread. Called again when that piece was sent, and destroyed before the end
/// where the client is gone.
using NextPiece = std::function<void(std::function<void(std::string)>)>;

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// Of a body that is made while it is sent: what comes behind `body`.
  NextPiece more = {};
  /// Kept until the client has taken the answer.
  std::shared_ptr<Reservation> memory = {};
};

/// Sends a response: called once, from any thread.
using Respond = std::function<void(Response)>;

/// Any thread may call it.
class Handler {
 public:
  virtual ~Handler() = default;
  /// Asked when the header is there, before a body is read: an answer refuses the request. Must not
  /// throw.
  virtual std::optional<Response> refuse_early(const Request& head) = 0;
  /// Answers `request` with `respond`, at once or later; HEAD as GET. Must not throw, and must not
  /// keep the thread.
  virtual void handle(Request request, Respond respond) = 0;
  /// So many bytes of memory are free again that were taken for a request that was refused or broke
  /// off, or for a large answer that was sent.
  virtual void gave_up(std::size_t) {}
  /// An answer to what is no request that handle() could be given (413, say).
  virtual Response refuse(int status, const std::string& message) = 0;
};

}  // namespace sullae::http
