#include "serve/grpc/grpc_server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>

#include "base/host.h"
#include "base/version.h"
#include "serve/grpc/grpc_tensors.h"
#include "serve/proto/open_inference.grpc.pb.h"
#include "serve/protocol/status_json.h"
#include "serve/request_error.h"

namespace sullae::serve {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;
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

// Calls of a connection at a time.
constexpr int kMostStreams = 256;

std::string read_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw InputError(fmt::format("{}: cannot be read", file));
  return text.str();
}

class Service final : public inference::GRPCInferenceService::CallbackService {
 public:
  Service(Repository& repository, const Access& access)
      : repository_(repository), access_(access) {}

  ServerUnaryReactor* ServerLive(CallbackServerContext* context,
                                 const inference::ServerLiveRequest*,
                                 inference::ServerLiveResponse* response) override {
    return answer(context, [&] { response->set_live(true); });
  }

  ServerUnaryReactor* ServerReady(CallbackServerContext* context,
                                  const inference::ServerReadyRequest*,
                                  inference::ServerReadyResponse* response) override {
    return answer(context, [&] { response->set_ready(repository_.ready()); });
  }

  ServerUnaryReactor* ModelReady(CallbackServerContext* context,
                                 const inference::ModelReadyRequest* request,
                                 inference::ModelReadyResponse* response) override {
    return answer(context, [&] {
      try {
        repository_.look_up(request->name(), request->version());
        response->set_ready(true);
      } catch (const RequestError& error) {
        if (error.refusal() != Refusal::unavailable) throw;
        response->set_ready(false);
      }
    });
  }

  ServerUnaryReactor* ServerMetadata(CallbackServerContext* context,
                                     const inference::ServerMetadataRequest*,
                                     inference::ServerMetadataResponse* response) override {
    return answer(context, [&] {
      response->set_name("sullae");
      response->set_version(kVersion);
      // Of HTTP's extensions, binary tensors have no meaning here.
    });
  }

  ServerUnaryReactor* ModelMetadata(CallbackServerContext* context,
                                    const inference::ModelMetadataRequest* request,
                                    inference::ModelMetadataResponse* response) override {
    return answer(context, [&] {
      need(*context, Role::read);
      const auto version = repository_.look_up(request->name(), request->version());
      const auto& model = version->model();
      response->set_name(request->name());
      response->set_platform(model.platform());
      for (const auto& status : repository_.status(request->name()).versions) {
        if (status.state == VersionState::ready)
          response->add_versions(std::to_string(status.number));
      }
      const auto add = [](const TensorSignature& signature, auto* tensor) {
        tensor->set_name(signature.name);
        tensor->set_datatype(name_of(signature.datatype));
        for (const auto size : signature.shape) tensor->add_shape(size);
      };
      for (const auto& input : model.codec().inputs()) add(input, response->add_inputs());
      for (const auto& output : model.codec().outputs()) add(output, response->add_outputs());
    });
  }

  ServerUnaryReactor* ModelInfer(CallbackServerContext* context,
                                 const inference::ModelInferRequest* request,
                                 inference::ModelInferResponse* response) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    try {
      need(*context, Role::infer);
      auto version = repository_.choose(request->model_name(), request->model_version());
      if (!version->model().codec().decodes_slowly()) {
        infer(version, *request, *response, *reactor);
        return reactor;
      }
      // gRPC's own threads answer all other calls.
      boost::asio::post(images_, [=, version = std::move(version), arrived = Clock::now()] {
        try {
          infer(version, *request, *response, *reactor, arrived);
        } catch (const std::exception&) {
          reactor->Finish(status_of(std::current_exception()));
        }
      });
    } catch (const std::exception&) {
      reactor->Finish(status_of(std::current_exception()));
    }
    return reactor;
  }

 private:
  static void infer(const std::shared_ptr<Version>& version,
                    const inference::ModelInferRequest& request,
                    inference::ModelInferResponse& response, ServerUnaryReactor& reactor,
                    Clock::time_point arrived = Clock::now()) {
    Version::infer(
        version, from_grpc(request, [&](std::int64_t rows) { version->check_rows(rows); }),
        [&reactor, &response, id = request.id()](const Version::Result& result) {
          try {
            if (result.error) std::rethrow_exception(result.error);
            response.set_id(id);
            to_grpc(result.response, response);
            reactor.Finish(Status::OK);
          } catch (const std::exception&) {
            reactor.Finish(status_of(std::current_exception()));
          }
        },
        arrived);
  }

  template <class Fill>
  static ServerUnaryReactor* answer(CallbackServerContext* context, Fill fill) {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    try {
      fill();
      reactor->Finish(Status::OK);
    } catch (const std::exception&) {
      reactor->Finish(status_of(std::current_exception()));
    }
    return reactor;
  }

  void need(const CallbackServerContext& context, Role role) const {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("authorization");
    access_.check(found == metadata.end()
                      ? std::string_view()
                      : std::string_view(found->second.data(), found->second.size()),
                  role);
  }

  Repository& repository_;
  const Access& access_;
  boost::asio::thread_pool images_{static_cast<std::size_t>(available_cpus())};
};

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(const GrpcServerOptions& options, Repository& repository, const Access& access)
      : drain_timeout_(options.drain_timeout), service_(repository, access) {
    grpc::ServerBuilder builder;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!options.tls_certificate.empty()) {
      grpc::SslServerCredentialsOptions tls;
      tls.pem_key_cert_pairs.push_back(
          {read_file(options.tls_key), read_file(options.tls_certificate)});
      credentials = grpc::SslServerCredentials(tls);
    }
    const bool is_v6 = options.host.find(':') != std::string::npos;
    const auto host = is_v6 ? fmt::format("[{}]", options.host) : options.host;
    const auto address = fmt::format("{}:{}", host, options.port);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    builder.AddListeningPort(address, credentials, &port_);
    // Without it a second server would share the port, and get every other call.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(
        std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
    grpc::ResourceQuota quota("sullae");
    quota.Resize(options.max_inflight_bytes);
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0)
      throw Error(fmt::format("{}: cannot listen for gRPC", address));
    set_ready(false);
  }
  ~Impl() { shutdown(); }

  std::uint16_t port() const { return static_cast<std::uint16_t>(port_); }

  void set_ready(bool ready) {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) return;
    auto* const health = server_->GetHealthCheckService();
    health->SetServingStatus(ready);
    health->SetServingStatus(inference::GRPCInferenceService::service_full_name(), ready);
  }

  void shutdown() {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + drain_timeout_);
    server_.reset();
  }

 private:
  std::chrono::milliseconds drain_timeout_;
  Service service_;
  std::mutex mutex_;
  std::unique_ptr<grpc::Server> server_;  // guarded by mutex_
  int port_ = 0;
};

GrpcServer::GrpcServer(const GrpcServerOptions& options, Repository& repository,
                       const Access& access)
    : impl_(std::make_unique<Impl>(options, repository, access)) {}
GrpcServer::~GrpcServer() = default;
std::uint16_t GrpcServer::port() const { return impl_->port(); }
void GrpcServer::set_ready(bool ready) { impl_->set_ready(ready); }
void GrpcServer::shutdown() { impl_->shutdown(); }

}  // namespace sullae::serve
