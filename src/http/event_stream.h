// Server-sent events (WHATWG HTML, section 9.2): answers that go on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/exchange.h"

namespace sullae::http {

/// Events on their way to one client. Any thread.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  /// The answer that they are the body of. Call it once.
  Response answer();

  /// `data` has no line feeds. False where the client is gone, or reads so slowly that kMostWaiting
  /// bytes would wait for it.
  bool send(std::string_view data);
  /// Nothing is sent after this.
  void end();

 private:
  void leave();
  void hand_over();

  std::mutex mutex_;
  // All guarded by it.
  std::string waiting_;
  std::function<void(std::string)> take_;  // who waits for an event
  bool ended_ = false;
  bool gone_ = false;
};

}  // namespace sullae::http
