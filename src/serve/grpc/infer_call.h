// A ModelInferRequest from its bytes to its answers.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "http/budget.h"
#include "serve/generation/generate.h"
#include "serve/grpc/grpc_texts.h"
#include "serve/proto/open_inference.pb.h"
#include "serve/repository/repository.h"

namespace sullae::serve {

/// Hears how a request is answered: one call at a time, in whatever thread. It throws nothing.
struct InferListener {
  /// The answer, or what is left of it. Where there is an error, it only says what was asked for.
  std::function<void(inference::ModelInferResponse, std::exception_ptr)> done;
  /// Of a text that is written piece by piece what is new. False: nobody hears it any more, so that
  /// it ends without another call. Where there is none, texts are answered whole.
  std::function<bool(inference::ModelInferResponse)> wrote = {};
};

/// What requests are answered with. All outlive them.
struct InferParts {
  Repository& repository;
  http::Budget& budget;  // for messages in memory
  Generations& generations;
  boost::asio::thread_pool& workers;  // for what takes long: gRPC's own threads answer other calls
};

/// To parse more takes longer than other calls should wait.
constexpr std::size_t kQuickBytes = std::size_t{256} << 10;

/// Shared by who works on it at the moment.
class InferCall : public std::enable_shared_from_this<InferCall> {
 public:
  InferCall(const InferParts& parts, const grpc::ByteBuffer& wire, InferListener listener);

  void start();

 private:
  template <class Step>
  void attempt(Step step);
  template <class Step>
  void post(Step step);
  void parse_and_choose();
  void answer();
  void infer();
  void write_text();
  void end_text(const Generated& generated);

  InferParts parts_;
  grpc::ByteBuffer wire_;
  InferListener listener_;
  http::Reservation memory_;
  Clock::time_point arrived_ = Clock::now();
  inference::ModelInferRequest request_;
  inference::ModelInferResponse head_;  // what each answer begins with
  std::shared_ptr<Version> version_;
  std::optional<TextRequest> text_;
  bool empty_end_ = false;  // whether a text's end is an answer of its own
};

}  // namespace sullae::serve
