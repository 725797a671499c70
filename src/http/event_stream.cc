#include "http/event_stream.h"

#include <utility>

namespace sullae::http {

Response EventStream::answer() {
  // Tells when its last copy is gone.
  const std::shared_ptr<EventStream> reader(
      this, [self = shared_from_this()](EventStream*) { self->leave(); });
  return {.content_type = "text/event-stream",
          // As nginx, and those that do as it does, pass on what comes.
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
          .more = [reader](std::function<void(std::string)> take) {
            {
              const std::lock_guard lock(reader->mutex_);
              reader->take_ = std::move(take);
            }
            reader->hand_over();
          }};
}

bool EventStream::send(std::string_view data) {
  {
    const std::lock_guard lock(mutex_);
    gone_ = gone_ || (!waiting_.empty() && waiting_.size() + data.size() > kMostWaiting);
    if (gone_) return false;
    waiting_.append("data: ").append(data).append("\n\n");
  }
  hand_over();
  return true;
}

void EventStream::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  hand_over();
}

void EventStream::leave() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
}

// All that waits is a piece; no piece is the end.
void EventStream::hand_over() {
  std::function<void(std::string)> take;
  std::string piece;
  {
    const std::lock_guard lock(mutex_);
    if (!take_ || (waiting_.empty() && !ended_)) return;
    take = std::exchange(take_, nullptr);
    piece = std::exchange(waiting_, {});
  }
  take(std::move(piece));
}

}  // namespace sullae::http
