// inference.GRPCInferenceService: requests come as bytes, and are parsed when their token and their
// memory are in order.
#pragma once

#include <boost/asio/thread_pool.hpp>

#include "http/access.h"
#include "http/budget.h"
#include "serve/generation/generate.h"
#include "serve/grpc/infer_stream.h"
#include "serve/grpc/open_calls.h"
#include "serve/proto/open_inference.grpc.pb.h"
#include "serve/repository/repository.h"

namespace sullae::serve {

namespace detail {
// Methods as bytes, by gRPC's generated code, which has a class a method for it.
using Definition = inference::GRPCInferenceService;
using RawInferenceService = Definition::WithRawCallbackMethod_ServerLive<
    Definition::WithRawCallbackMethod_ServerReady<Definition::WithRawCallbackMethod_ModelReady<
        Definition::WithRawCallbackMethod_ServerMetadata<
            Definition::WithRawCallbackMethod_ModelMetadata<
                Definition::WithRawCallbackMethod_ModelInfer<
                    Definition::WithRawCallbackMethod_ModelStreamInfer<
                        Definition::WithRawCallbackMethod_ModelConfig<
                            Definition::WithRawCallbackMethod_ModelStatistics<
                                Definition::WithRawCallbackMethod_RepositoryIndex<
                                    Definition::WithRawCallbackMethod_RepositoryModelLoad<
                                        Definition::WithRawCallbackMethod_RepositoryModelUnload<
                                            Definition::Service>>>>>>>>>>>>;
}  // namespace detail

/// gRPC calls it, in its threads.
class InferenceService final : public detail::RawInferenceService {
 public:
  /// What is given must outlive this object; `budget` is for messages in memory.
  InferenceService(Repository& repository, const http::Access& access, http::Budget& budget,
                   Generations& generations);
  ~InferenceService() override;

  using Reactor = grpc::ServerUnaryReactor;
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  Reactor* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* ModelStreamInfer(Context* context) override;
  Reactor* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelStatistics(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;

  /// Takes no more requests, and lets go of clients that keep streams open and ask for nothing.
  void refuse();
  /// Waits for what is being answered; texts that still go on after `limit` end at their next
  /// piece.
  void wait(std::chrono::milliseconds limit);

 private:
  template <class Request, class Response, class Fill>
  Reactor* answer(Context& context, const Bytes& wire, Bytes& answer, http::Role role, Fill fill);
  void read(const Bytes& wire, google::protobuf::Message& request) const;
  void need(const Context& context, http::Role role) const;
  InferParts parts() { return {repository_, budget_, generations_, workers_}; }

  Repository& repository_;
  const http::Access& access_;
  http::Budget& budget_;
  Generations& generations_;
  OpenCalls open_calls_;
  InferStreams streams_{open_calls_};
  boost::asio::thread_pool operators_{2};  // for what takes long and is of no client's
  boost::asio::thread_pool workers_;       // last, so that they end first
};

}  // namespace sullae::serve
