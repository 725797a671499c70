#include "serve/grpc/inference_service.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/host.h"
#include "base/request_error.h"
#include "base/version.h"
#include "serve/grpc/infer_call.h"
#include "serve/grpc/wire.h"

namespace sullae::serve {
namespace {

using grpc::Status;
using grpc::StatusCode;

StatusCode code_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::invalid:
      return StatusCode::INVALID_ARGUMENT;
    case Refusal::unauthenticated:
      return StatusCode::UNAUTHENTICATED;
    case Refusal::forbidden:
      return StatusCode::PERMISSION_DENIED;
    case Refusal::not_found:
      return StatusCode::NOT_FOUND;
    case Refusal::wrong_method:
    case Refusal::unsupported_type:
      return StatusCode::INVALID_ARGUMENT;
    case Refusal::conflict:
      return StatusCode::FAILED_PRECONDITION;
    case Refusal::too_large:
      return StatusCode::RESOURCE_EXHAUSTED;
    case Refusal::overloaded:
      return StatusCode::UNAVAILABLE;
    case Refusal::timeout:
      return StatusCode::DEADLINE_EXCEEDED;
    case Refusal::unavailable:
      return StatusCode::UNAVAILABLE;
  }
  return StatusCode::INTERNAL;
}

Status status_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& refused) {
    return {code_of(refused.refusal()), refused.what()};
  } catch (const std::exception& failure) {
    return {StatusCode::INTERNAL, failure.what()};
  }
}

/// A ModelInfer, until gRPC has sent its answer, which is a part of the memory for all requests.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(grpc::ByteBuffer& response, http::Budget& budget, OpenCalls& open_calls)
      : response_(response), memory_(budget), open_calls_(open_calls) {}

  void end(const inference::ModelInferResponse& answer, const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
      if (!memory_.grow_to(answer.ByteSizeLong()))
        throw RequestError(Refusal::unavailable, http::kNoMemoryLeft);
      response_ = serialize(answer);
      Finish(Status::OK);
    } catch (const std::exception&) {
      Finish(status_of(std::current_exception()));
    }
  }
  void OnDone() override {
    OpenCalls& all = open_calls_;
    delete this;
    all.leave();
  }

 private:
  grpc::ByteBuffer& response_;
  http::Reservation memory_;
  OpenCalls& open_calls_;
};

/// A stream that is not let in.
class RefusedStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit RefusedStream(Status why) { Finish(std::move(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

InferenceService::InferenceService(Repository& repository, const http::Access& access,
                                   http::Budget& budget, Generations& generations)
    : repository_(repository),
      access_(access),
      budget_(budget),
      generations_(generations),
      workers_(static_cast<std::size_t>(available_cpus())) {}
InferenceService::~InferenceService() = default;

InferenceService::Reactor* InferenceService::ServerLive(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return answer<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      *context, *request, *response, http::Role::none,
      [](const auto&, auto& live) { live.set_live(true); });
}

InferenceService::Reactor* InferenceService::ServerReady(Context* context, const Bytes* request,
                                                         Bytes* response) {
  return answer<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      *context, *request, *response, http::Role::none,
      [this](const auto&, auto& ready) { ready.set_ready(repository_.ready()); });
}

InferenceService::Reactor* InferenceService::ModelReady(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return answer<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      *context, *request, *response, http::Role::none, [this](const auto& model, auto& ready) {
        try {
          repository_.look_up(model.name(), model.version());
          ready.set_ready(true);
        } catch (const RequestError& error) {
          // Triton's server says so of a model that there is not, too.
          const bool is_known =
              error.refusal() == Refusal::unavailable || error.refusal() == Refusal::not_found;
          if (!is_known) throw;
          ready.set_ready(false);
        }
      });
}

InferenceService::Reactor* InferenceService::ServerMetadata(Context* context, const Bytes* request,
                                                            Bytes* response) {
  return answer<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      *context, *request, *response, http::Role::none, [](const auto&, auto& metadata) {
        metadata.set_name("sullae");
        metadata.set_version(kVersion);
        // Of HTTP's extensions, binary tensors have no meaning here.
      });
}

InferenceService::Reactor* InferenceService::ModelMetadata(Context* context, const Bytes* request,
                                                           Bytes* response) {
  return answer<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      *context, *request, *response, http::Role::read, [this](const auto& asked, auto& metadata) {
        const auto version = repository_.look_up(asked.name(), asked.version());
        const auto& model = version->model();
        metadata.set_name(asked.name());
        metadata.set_platform(model.platform());
        for (const auto& status : repository_.status(asked.name()).versions) {
          if (status.state == VersionState::ready)
            metadata.add_versions(std::to_string(status.number));
        }
        const auto add = [](const TensorSignature& signature, auto* tensor) {
          tensor->set_name(signature.name);
          tensor->set_datatype(name_of(signature.datatype));
          for (const auto size : signature.shape) tensor->add_shape(size);
        };
        for (const auto& input : model.codec().inputs()) add(input, metadata.add_inputs());
        for (const auto& output : model.codec().outputs()) add(output, metadata.add_outputs());
      });
}

InferenceService::Reactor* InferenceService::ModelInfer(Context* context, const Bytes* request,
                                                        Bytes* response) {
  try {
    need(*context, http::Role::infer);
    if (!open_calls_.enter()) refuse_new_calls();
  } catch (const std::exception&) {
    Reactor* const refused = context->DefaultReactor();
    refused->Finish(status_of(std::current_exception()));
    return refused;
  }
  auto* const call = new UnaryCall(*response, budget_, open_calls_);
  std::make_shared<InferCall>(parts(), *request,
                              InferListener{.done =
                                                [call](const inference::ModelInferResponse& answer,
                                                       const std::exception_ptr& error) {
                                                  call->end(answer, error);
                                                }})
      ->start();
  return call;
}

void InferenceService::refuse() {
  open_calls_.refuse();
  streams_.end();
}

void InferenceService::wait(std::chrono::milliseconds limit) {
  if (!open_calls_.wait(limit)) generations_.end();
}

grpc::ServerBidiReactor<InferenceService::Bytes, InferenceService::Bytes>*
InferenceService::ModelStreamInfer(Context* context) {
  try {
    need(*context, http::Role::infer);
    InferStream& stream = streams_.open(parts());
    stream.start();
    return &stream;
  } catch (const std::exception&) {
    return new RefusedStream(status_of(std::current_exception()));
  }
}

template <class Request, class Response, class Fill>
InferenceService::Reactor* InferenceService::answer(Context& context, const Bytes& wire,
                                                    Bytes& answer, http::Role role, Fill fill) {
  Reactor* reactor = context.DefaultReactor();
  try {
    if (role != http::Role::none) need(context, role);
    if (wire.Length() > kQuickBytes)
      throw RequestError(Refusal::too_large,
                         fmt::format("a message of {} bytes, at most {} were expected here",
                                     wire.Length(), kQuickBytes));
    http::Reservation memory(budget_);
    Request request;
    parse(wire, memory, request);
    Response response;
    fill(request, response);
    answer = serialize(response);
    reactor->Finish(Status::OK);
  } catch (const std::exception&) {
    reactor->Finish(status_of(std::current_exception()));
  }
  return reactor;
}

void InferenceService::need(const Context& context, http::Role role) const {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  access_.check(found == metadata.end()
                    ? std::string_view()
                    : std::string_view(found->second.data(), found->second.size()),
                role);
}

}  // namespace sullae::serve
