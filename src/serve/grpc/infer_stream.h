// ModelStreamInfer, an extension of Triton's: the requests of a stream, each answered as soon as it
// can be, texts piece by piece. Answers carry their request's id, since they come in any order.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "serve/grpc/infer_call.h"
#include "serve/grpc/open_calls.h"

namespace sullae::serve {

class InferStreams;

/// A client's stream.
class InferStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(const InferParts& parts, InferStreams& all) : parts_(parts), all_(all) {}

  void start() { go_on(); }
  /// Reads no more, and ends when what was read is answered.
  void end();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  struct Answer {
    std::uint64_t request = 0;  // by its place in the stream
    inference::ModelInferResponse response;
    std::string error;
    std::unique_ptr<http::Reservation> memory = {};  // of the response
  };

  void answer(std::uint64_t request, const grpc::ByteBuffer& wire);
  void take_last(Answer answer);
  bool take_piece(Answer answer);
  bool put(Answer answer, bool is_last);
  void go_on();
  grpc::ByteBuffer next_answer();

  const InferParts parts_;
  InferStreams& all_;

  // Held while gRPC is called, which calls back in other threads.
  std::mutex mutex_;
  // All guarded by it.
  std::deque<Answer> waiting_;
  std::uint64_t requests_ = 0;
  std::size_t unanswered_ = 0;
  grpc::ByteBuffer read_;  // gRPC's while it reads, as the next is while it writes
  grpc::ByteBuffer written_;
  std::unique_ptr<http::Reservation> written_memory_;
  bool reading_ = false;
  bool writing_ = false;
  bool read_all_ = false;
  bool ending_ = false;
  bool gone_ = false;  // nobody hears any more
  bool finished_ = false;
};

/// A server's streams, each of which is an open call. Any thread.
class InferStreams {
 public:
  explicit InferStreams(OpenCalls& open_calls) : open_calls_(open_calls) {}

  /// Kept until gRPC has done with it. Throws RequestError (unavailable) where the server ends.
  InferStream& open(const InferParts& parts);
  void closed(InferStream& stream);
  /// None reads any more.
  void end();

 private:
  OpenCalls& open_calls_;
  std::mutex mutex_;
  std::set<std::shared_ptr<InferStream>> streams_;  // guarded by mutex_
};

}  // namespace sullae::serve
