#include "dashboard/dashboard.h"

#include <fmt/format.h>

#include "base/secret.h"
#include "dashboard/api.h"
#include "http/origin.h"
#include "http/server.h"
#include "sullae/error.h"

namespace sullae::dashboard {
class Dashboard::Impl {
 public:
  explicit Impl(const Options& options)
      : token_(options.tokens_file.empty() &&
                       (options.draws_token || !http::is_loopback(options.host))
                   ? draw_secret()
                   : ""),
        api_(existing(options.folder), access_of(options), {options.host, options.allowed_hosts}) {
    server_ = std::make_unique<http::Server>(
        http::ServerOptions{.host = options.host,
                            .port = options.port,
                            .threads = 2,
                            .max_body_bytes = 4096,
                            .max_inflight_bytes = std::size_t{64} << 20,
                            .drain_timeout = std::chrono::seconds{2},
                            .tls_certificate = options.tls_certificate,
                            .tls_key = options.tls_key},
        api_);
  }
  ~Impl() { server_->shutdown(); }

  std::uint16_t port() const { return server_->port(); }
  const std::string& token() const { return token_; }

 private:
  static std::filesystem::path existing(const std::filesystem::path& folder) {
    if (!std::filesystem::is_directory(folder))
      throw InputError(fmt::format("{}: is no folder", folder.string()));
    return std::filesystem::canonical(folder);
  }
  http::Access access_of(const Options& options) const {
    if (!options.tokens_file.empty()) return http::Access(options.tokens_file);
    return token_.empty() ? http::Access() : http::Access("reader", http::Role::read, token_);
  }

  std::string token_;
  // Before what may still answer a request, and so destroyed after it.
  std::unique_ptr<http::Server> server_;
  Api api_;
};

Dashboard::Dashboard(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Dashboard::~Dashboard() = default;
std::uint16_t Dashboard::port() const { return impl_->port(); }
const std::string& Dashboard::token() const { return impl_->token(); }

}  // namespace sullae::dashboard
