#include "serve/grpc/inference_service.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "base/dump_json.h"
#include "base/host.h"
#include "base/request_error.h"
#include "base/version.h"
#include "serve/grpc/infer_call.h"
#include "serve/grpc/wire.h"
#include "serve/protocol/status_json.h"
#include "sullae/error.h"

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

// HTTP's answers have the names of gRPC's fields.
void from_json(const nlohmann::json& answer, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(dump_json(answer), &message, options);
  if (!status.ok()) throw Error(status.ToString());
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
        for (const auto& extension : server_extensions()) metadata.add_extensions(extension);
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

InferenceService::Reactor* InferenceService::ModelConfig(Context* context, const Bytes* request,
                                                         Bytes* response) {
  return answer<inference::ModelConfigRequest, inference::ModelConfigResponse>(
      *context, *request, *response, http::Role::read, [this](const auto& asked, auto& told) {
        const auto version = repository_.look_up(asked.name(), asked.version());
        from_json(model_configuration(asked.name(), version->model()), *told.mutable_config());
      });
}

InferenceService::Reactor* InferenceService::ModelStatistics(Context* context, const Bytes* request,
                                                             Bytes* response) {
  return answer<inference::ModelStatisticsRequest, inference::ModelStatisticsResponse>(
      *context, *request, *response, http::Role::read, [this](const auto& asked, auto& told) {
        if (asked.name().empty()) return from_json(model_statistics(repository_.index(), ""), told);
        repository_.look_up(asked.name(), asked.version());
        from_json(model_statistics({repository_.status(asked.name())}, asked.version()), told);
      });
}

InferenceService::Reactor* InferenceService::RepositoryIndex(Context* context, const Bytes* request,
                                                             Bytes* response) {
  return answer<inference::RepositoryIndexRequest, inference::RepositoryIndexResponse>(
      *context, *request, *response, http::Role::read, [this](const auto& asked, auto& told) {
        from_json({{"models", repository_index(repository_.index(), asked.ready())}}, told);
      });
}

// Models are read from the disk meanwhile.
InferenceService::Reactor* InferenceService::RepositoryModelLoad(Context* context,
                                                                 const Bytes* request,
                                                                 Bytes* response) {
  Reactor* const reactor = context->DefaultReactor();
  try {
    need(*context, http::Role::operate);
    inference::RepositoryModelLoadRequest asked;
    read(*request, asked);
    if (!asked.parameters().empty()) sullae::refuse(kNoLoadParameters);
    if (!open_calls_.enter()) refuse_new_calls();
    boost::asio::post(operators_, [this, reactor, response, model = asked.model_name()] {
      try {
        repository_.reload(model);
        *response = serialize(inference::RepositoryModelLoadResponse());
        reactor->Finish(Status::OK);
      } catch (const std::exception&) {
        reactor->Finish(status_of(std::current_exception()));
      }
      open_calls_.leave();
    });
  } catch (const std::exception&) {
    reactor->Finish(status_of(std::current_exception()));
  }
  return reactor;
}

InferenceService::Reactor* InferenceService::RepositoryModelUnload(Context* context,
                                                                   const Bytes* request,
                                                                   Bytes* response) {
  return answer<inference::RepositoryModelUnloadRequest, inference::RepositoryModelUnloadResponse>(
      *context, *request, *response, http::Role::operate,
      [](const auto&, auto&) { sullae::refuse(kNoUnload); });
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
    Request request;
    read(wire, request);
    Response response;
    fill(request, response);
    answer = serialize(response);
    reactor->Finish(Status::OK);
  } catch (const std::exception&) {
    reactor->Finish(status_of(std::current_exception()));
  }
  return reactor;
}

// What is asked of the server itself is short.
void InferenceService::read(const Bytes& wire, google::protobuf::Message& request) const {
  if (wire.Length() > kQuickBytes)
    throw RequestError(Refusal::too_large,
                       fmt::format("a message of {} bytes, at most {} were expected here",
                                   wire.Length(), kQuickBytes));
  http::Reservation memory(budget_);
  parse(wire, memory, request);
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
