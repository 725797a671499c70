#include "serve/grpc/grpc_server.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "base/environment.h"
#include "base/file.h"
#include "serve/grpc/inference_service.h"
#include "serve/grpc/reflection.h"
#include "sullae/error.h"

namespace sullae::serve {
namespace {

// Calls of a connection at a time.
constexpr int kMostStreams = 256;
// Whose peer is gone without a word, or out of reach.
constexpr int kKeepAliveMilliseconds = 60'000;
// When all that was asked for is answered: of those who follow the health service, or look at what
// there is, and stay.
constexpr std::chrono::milliseconds kFollowersLimit{1000};
constexpr std::chrono::milliseconds kCancelPeriod{100};
constexpr const char* kService = inference::GRPCInferenceService::service_full_name();
constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

// Why a port cannot be had gRPC says in its log alone: as a line of its insides, in which the
// system's word is.
class StartLog {
 public:
  StartLog() {
    reason().clear();
    if (process_environment()("GRPC_VERBOSITY")) return;  // somebody wants to see it
    ::gpr_set_log_function([](gpr_log_func_args* said) {
      constexpr std::string_view kMark = "os_error:\"";
      const std::string_view message = said->message;
      const auto at = message.find(kMark);
      if (at == std::string_view::npos) return;
      const auto begin = at + kMark.size();
      reason() = message.substr(begin, message.find('"', begin) - begin);
    });
  }
  ~StartLog() { ::gpr_set_log_function(nullptr); }
  StartLog(const StartLog&) = delete;
  StartLog& operator=(const StartLog&) = delete;

  // Empty where it has said none.
  static std::string& reason() {
    static thread_local std::string why;
    return why;
  }
};

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(const GrpcServerOptions& options, Repository& repository, const http::Access& access,
       http::Budget& budget, Generations& generations)
      : drain_timeout_(options.drain_timeout), service_(repository, access, budget, generations) {
    grpc::ServerBuilder builder;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!options.tls_certificate.empty()) {
      grpc::SslServerCredentialsOptions tls;
      tls.pem_key_cert_pairs.push_back({read_file(options.tls_key, kMaxPemBytes),
                                        read_file(options.tls_certificate, kMaxPemBytes)});
      credentials = grpc::SslServerCredentials(tls);
    }
    const bool is_v6 = options.host.find(':') != std::string::npos;
    const auto host = is_v6 ? fmt::format("[{}]", options.host) : options.host;
    const auto address = fmt::format("{}:{}", host, options.port);
    grpc::EnableDefaultHealthCheckService(true);
    // It would write a line for every text of a client that is no UTF-8; the client is told.
    google::protobuf::SetLogHandler(nullptr);
    builder.AddListeningPort(address, credentials, &port_);
    // Without it a second server would share the port, and get every other call.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(
        std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max())));
    grpc::ResourceQuota quota("sullae");
    quota.Resize(budget.limit());
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(options.idle_timeout.count()));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMilliseconds);
    builder.RegisterService(&service_);
    builder.RegisterCallbackGenericService(&reflection_);
    const StartLog log;
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0)
      throw Error(fmt::format("{}: cannot listen for gRPC (--grpc-port): {}", address,
                              StartLog::reason().empty() ? "is no address of this host, or taken"
                                                         : StartLog::reason()));
    set_ready(false);
  }
  ~Impl() { shutdown(); }

  std::uint16_t port() const { return static_cast<std::uint16_t>(port_); }

  void set_ready(bool ready) {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) return;
    auto* const health = server_->GetHealthCheckService();
    health->SetServingStatus(ready);
    health->SetServingStatus(kService, ready);
  }

  void shutdown() {
    const std::lock_guard lock(mutex_);
    if (server_ == nullptr) return;
    server_->GetHealthCheckService()->Shutdown();
    service_.refuse();
    // Clients are told to go elsewhere at once (GOAWAY). Those who only follow stay, and would be
    // waited for as long as who is answered.
    std::mutex mutex;
    std::condition_variable_any changed;
    std::jthread followers([&](const std::stop_token& over) {
      service_.wait(drain_timeout_);
      std::unique_lock turn(mutex);
      changed.wait_for(turn, over, kFollowersLimit, [] { return false; });
      while (!over.stop_requested()) {
        ::grpc_server_cancel_all_calls(server_->c_server());
        changed.wait_for(turn, over, kCancelPeriod, [] { return false; });
      }
    });
    server_->Shutdown(std::chrono::system_clock::now() + drain_timeout_ + 2 * kFollowersLimit);
    followers.request_stop();
    followers.join();
    server_.reset();
  }

 private:
  std::chrono::milliseconds drain_timeout_;
  InferenceService service_;
  Reflection reflection_{{kService, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                          "grpc.reflection.v1alpha.ServerReflection"}};
  std::mutex mutex_;
  std::unique_ptr<grpc::Server> server_;  // guarded by mutex_
  int port_ = 0;
};

GrpcServer::GrpcServer(const GrpcServerOptions& options, Repository& repository,
                       const http::Access& access, http::Budget& budget, Generations& generations)
    : impl_(std::make_unique<Impl>(options, repository, access, budget, generations)) {}
GrpcServer::~GrpcServer() = default;
std::uint16_t GrpcServer::port() const { return impl_->port(); }
void GrpcServer::set_ready(bool ready) { impl_->set_ready(ready); }
void GrpcServer::shutdown() { impl_->shutdown(); }

}  // namespace sullae::serve
