#include "serve/grpc/inference_service.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "base/host.h"
#include "base/request_error.h"
#include "base/version.h"
#include "serve/grpc/grpc_tensors.h"
#include "serve/grpc/wire.h"

namespace sullae::serve {
namespace {

using grpc::Status;
using grpc::StatusCode;

// To parse more takes longer than other calls should wait. Only ModelInfer has reason to be larger.
constexpr std::size_t kQuickBytes = std::size_t{256} << 10;

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

}  // namespace

/// A ModelInfer from its bytes to its answer; shared by who works on it at the moment.
class InferenceService::InferCall : public std::enable_shared_from_this<InferCall> {
 public:
  InferCall(Reactor& reactor, const Bytes& wire, Bytes& answer, http::Budget& budget)
      : reactor_(reactor), wire_(wire), answer_(answer), memory_(budget) {}

  /// Does `step`, and ends the call with what it throws.
  template <class Step>
  void attempt(Step step) {
    try {
      step();
    } catch (const std::exception&) {
      reactor_.Finish(status_of(std::current_exception()));
    }
  }

  /// The version that is to answer.
  std::shared_ptr<Version> read(Repository& repository) {
    parse(wire_, memory_, request_);
    return repository.choose(request_.model_name(), request_.model_version());
  }

  void infer(const std::shared_ptr<Version>& version) {
    auto request =
        from_grpc(std::move(request_), [&](std::int64_t rows) { version->check_rows(rows); });
    const std::string id = request.id;
    Version::infer(
        version, std::move(request),
        [self = shared_from_this(), id](Version::Result result) {
          self->attempt([&] {
            if (result.error) std::rethrow_exception(result.error);
            inference::ModelInferResponse response;
            response.set_id(id);
            to_grpc(std::move(result.response), response);
            self->answer_ = serialize(response);
            self->reactor_.Finish(Status::OK);
          });
        },
        arrived_);
  }

 private:
  Reactor& reactor_;
  const Bytes& wire_;  // both are gRPC's, until the call ends
  Bytes& answer_;
  http::Reservation memory_;
  Clock::time_point arrived_ = Clock::now();
  inference::ModelInferRequest request_;
};

InferenceService::InferenceService(Repository& repository, const http::Access& access,
                                   http::Budget& budget)
    : repository_(repository),
      access_(access),
      budget_(budget),
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
  Reactor* reactor = context->DefaultReactor();
  const auto call = std::make_shared<InferCall>(*reactor, *request, *response, budget_);
  call->attempt([&] {
    need(*context, http::Role::infer);
    if (request->Length() > kQuickBytes) {
      boost::asio::post(
          workers_, [this, call] { call->attempt([&] { call->infer(call->read(repository_)); }); });
      return;
    }
    auto version = call->read(repository_);
    if (version->model().codec().decodes_slowly()) {
      boost::asio::post(workers_, [call, version = std::move(version)] {
        call->attempt([&] { call->infer(version); });
      });
      return;
    }
    call->infer(version);
  });
  return reactor;
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
