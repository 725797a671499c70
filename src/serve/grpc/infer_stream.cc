#include "serve/grpc/infer_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error_text.h"
#include "serve/grpc/wire.h"

namespace sullae::serve {
namespace {

using grpc::Status;
using inference::ModelInferResponse;

// Requests of a stream that have no answer yet, and answers that wait for a client that does not
// read: as many as a connection may have calls.
constexpr std::size_t kMostOpen = 256;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& failure) {
    return message_of(failure);
  }
}

void make_error(ModelInferResponse& response, std::string& error, const char* why) {
  error = why;
  response.clear_outputs();
  response.clear_raw_output_contents();
}

}  // namespace

void InferStream::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  go_on();
}

void InferStream::OnReadDone(bool ok) {
  std::uint64_t request = 0;
  grpc::ByteBuffer wire;
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    if (finished_) return;
    if (ok) {
      request = ++requests_;
      ++unanswered_;
      wire.Swap(&read_);  // the next is read into it, perhaps before this is answered
    } else {
      read_all_ = true;
    }
  }
  if (request > 0) answer(request, wire);
  go_on();
}

void InferStream::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    written_memory_.reset();
    gone_ = gone_ || !ok;
  }
  go_on();
}

void InferStream::OnCancel() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  go_on();
}

void InferStream::OnDone() { all_.closed(*this); }

void InferStream::answer(std::uint64_t request, const grpc::ByteBuffer& wire) {
  const auto self = shared_from_this();
  std::make_shared<InferCall>(
      parts_, wire,
      InferListener{
          .done =
              [self, request](ModelInferResponse response, const std::exception_ptr& error) {
                self->take_last({.request = request,
                                 .response = std::move(response),
                                 .error = error ? text_of(error) : ""});
              },
          .wrote =
              [self, request](ModelInferResponse response) {
                return self->take_piece(
                    {.request = request, .response = std::move(response), .error = ""});
              }})
      ->start();
}

void InferStream::take_last(Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    --unanswered_;
    put(std::move(answer), /*is_last=*/true);
  }
  go_on();
}

bool InferStream::take_piece(Answer answer) {
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    const bool says_nothing = answer.response.outputs_size() == 0;
    goes_on = !gone_ && (says_nothing || put(std::move(answer), /*is_last=*/false));
    if (!goes_on) --unanswered_;  // it ends without another word
  }
  go_on();
  return goes_on;
}

// With the mutex held. What waits of a text is one answer, however slow its client is. False where
// there is no memory for it, which is the request's last answer then.
bool InferStream::put(Answer answer, bool is_last) {
  const auto earlier = std::ranges::find(waiting_, answer.request, &Answer::request);
  const bool joins = earlier != waiting_.end() && answer.response.raw_output_contents_size() > 0 &&
                     earlier->response.raw_output_contents_size() > 0;
  if (joins) {
    put_before(earlier->response, answer.response);
    answer.memory = std::move(earlier->memory);
  }
  if (!answer.memory) answer.memory = std::make_unique<http::Reservation>(parts_.budget);
  const bool fits = answer.memory->grow_to(answer.response.ByteSizeLong());
  if (!fits) make_error(answer.response, answer.error, http::kNoMemoryLeft);
  (*answer.response.mutable_parameters())["triton_final_response"].set_bool_param(is_last || !fits);
  if (joins) {
    *earlier = std::move(answer);
  } else {
    waiting_.push_back(std::move(answer));
  }
  return fits;
}

void InferStream::go_on() {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  if (gone_) waiting_.clear();
  if (!writing_ && !waiting_.empty()) {
    written_ = next_answer();
    writing_ = true;
    StartWrite(&written_);
  }
  const bool open = !read_all_ && !ending_ && !gone_;
  if (open && !reading_ && unanswered_ + waiting_.size() < kMostOpen) {
    reading_ = true;
    StartRead(&read_);
  }
  if (open || unanswered_ > 0 || writing_) return;
  finished_ = true;
  Finish(read_all_ || !ending_ ? Status::OK
                               : Status(grpc::StatusCode::UNAVAILABLE, "the server ends"));
}

// With the mutex held.
grpc::ByteBuffer InferStream::next_answer() {
  Answer answer = std::move(waiting_.front());
  waiting_.pop_front();
  written_memory_ = std::move(answer.memory);
  inference::ModelStreamInferResponse message;
  message.set_error_message(answer.error);
  *message.mutable_infer_response() = std::move(answer.response);
  try {
    return serialize(message);
  } catch (const Error& error) {
    make_error(*message.mutable_infer_response(), *message.mutable_error_message(), error.what());
    return serialize(message);
  }
}

InferStream& InferStreams::open(const InferParts& parts) {
  const auto stream = std::make_shared<InferStream>(parts, *this);
  const std::lock_guard lock(mutex_);
  if (!open_calls_.enter()) refuse_new_calls();
  streams_.insert(stream);
  return *stream;
}

void InferStreams::closed(InferStream& stream) {
  std::shared_ptr<InferStream> last = stream.shared_from_this();  // destroyed behind the lock
  {
    const std::lock_guard lock(mutex_);
    streams_.erase(last);
  }
  open_calls_.leave();
}

void InferStreams::end() {
  std::vector<std::shared_ptr<InferStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams.assign(streams_.begin(), streams_.end());
  }
  for (const auto& stream : streams) stream->end();
}

}  // namespace sullae::serve
