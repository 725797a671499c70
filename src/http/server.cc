#include "http/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/system_error.h"
#include "base/thread_group.h"
#include "http/session.h"
#include "sullae/error.h"

namespace sullae::http {

namespace net = boost::asio;
using tcp = net::ip::tcp;

namespace {

// For files, models, gRPC and all else that is open.
constexpr std::size_t kOtherDescriptors = 256;
// How long no connection is taken after one could not be, since trying again at once would not end.
constexpr std::chrono::milliseconds kAcceptPause{100};
// For what is answered when it is told that it comes too late.
constexpr std::chrono::seconds kLate{2};

// As many as there can be descriptors for, of `wanted`.
std::size_t possible_connections(std::size_t wanted) {
  const std::size_t needed = wanted + kOtherDescriptors;
  const std::size_t allowed = allow_descriptors(needed);
  if (allowed >= needed) return wanted;
  const std::size_t possible = allowed > 2 * kOtherDescriptors
                                   ? allowed - kOtherDescriptors
                                   : std::max<std::size_t>(allowed / 2, 1);
  log::warning(
      "--max-connections {}: {} are possible with the {} descriptors that this process may have "
      "(ulimit -n)",
      wanted, possible, allowed);
  return possible;
}

}  // namespace

class Server::Impl final : public SessionHost {
 public:
  Impl(const ServerOptions& options, Handler& handler)
      : options_(options),
        handler_(handler),
        budget_(options.max_inflight_bytes),
        max_connections_(possible_connections(options.max_connections)),
        acceptor_(net::make_strand(io_)),
        pause_(acceptor_.get_executor()) {
    if (options_.tls_certificate.empty() != options_.tls_key.empty())
      throw InputError("TLS: expected a certificate and a key");
    if (!options_.tls_certificate.empty()) load_certificate();
    listen();
    accept();
    for (int i = 0; i < options_.threads; ++i) threads_.start([this] { run(); });
  }

  // Sessions that are not answered are held by who computes, and know this.
  ~Impl() override {
    shutdown({});
    std::unique_lock lock(answers_->mutex);
    answers_->given.wait(lock, [&] { return answers_->waiting == 0; });
  }

  std::uint16_t port() const { return port_; }
  std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return sessions_.size();
  }

  std::size_t max_connections() const { return max_connections_; }

  void drain() {
    const std::lock_guard lock(mutex_);
    if (draining_.exchange(true)) return;
    deadline_ = std::chrono::steady_clock::now() + options_.drain_timeout;
    net::post(acceptor_.get_executor(), [this] {
      boost::system::error_code ignored;
      accept_waiting();
      acceptor_.close(ignored);
      pause_.cancel();
      const std::lock_guard taken(mutex_);
      takes_no_more_ = true;
      ended_.notify_all();
    });
    for (Session* session : sessions_) session->close_if_idle();
  }

  bool shutdown(const std::function<void()>& late) {
    const std::lock_guard ending(ending_mutex_);
    if (threads_.empty()) return all_are_answered_;
    drain();
    const auto answered = [this] {
      return takes_no_more_ && sessions_.empty();
    };
    {
      std::unique_lock lock(mutex_);
      const auto deadline = deadline_;
      ended_.wait_until(lock, deadline, answered);
      if (!sessions_.empty() && late) {
        lock.unlock();
        late();
        lock.lock();
        ended_.wait_for(lock, kLate, answered);
      }
      all_are_answered_ = sessions_.empty();
      if (!all_are_answered_)
        log::warning("{} requests were not answered within {} ms (drain timeout)", sessions_.size(),
                     options_.drain_timeout.count());
    }
    threads_.stop();
    return all_are_answered_;
  }

  // SessionHost
  const ServerOptions& options() const override { return options_; }
  Handler& handler() override { return handler_; }
  Budget& budget() override { return budget_; }
  std::shared_ptr<void> begin_answer() override {
    {
      const std::lock_guard lock(answers_->mutex);
      ++answers_->waiting;
    }
    // Without the lock: where there is no memory for it, it is given back at once.
    return {nullptr, [answers = answers_](void*) {
              const std::lock_guard turn(answers->mutex);
              --answers->waiting;
              answers->given.notify_all();
            }};
  }
  bool draining() const override { return draining_; }
  void add(Session& session) override {
    const std::lock_guard lock(mutex_);
    sessions_.insert(&session);
  }
  void remove(Session& session) override {
    const std::lock_guard lock(mutex_);
    sessions_.erase(&session);
    ended_.notify_all();
  }

 private:
  // What a session throws ends it alone.
  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        log::warning("a connection was closed: {}", error.what());
      }
    }
  }

  void load_certificate() {
    tls_.emplace(net::ssl::context::tls_server);
    tls_->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_sslv2 |
                      net::ssl::context::no_sslv3 | net::ssl::context::no_tlsv1 |
                      net::ssl::context::no_tlsv1_1);
    for (const auto& file : {options_.tls_certificate, options_.tls_key}) {
      if (::access(file.c_str(), R_OK) != 0) throw system_error("{} cannot be read", file);
    }
    boost::system::error_code error;
    tls_->use_certificate_chain_file(options_.tls_certificate, error);
    if (error)
      throw InputError(fmt::format("{}: is no certificate in PEM form: {}",
                                   options_.tls_certificate, error.message()));
    tls_->use_private_key_file(options_.tls_key, net::ssl::context::pem, error);
    if (error)
      throw InputError(
          fmt::format("{}: is no private key in PEM form, or another certificate's: {}",
                      options_.tls_key, error.message()));
  }

  void listen() {
    boost::system::error_code error;
    const auto address = net::ip::make_address(
        options_.host == "localhost" ? std::string("127.0.0.1") : options_.host, error);
    if (error)
      throw InputError(fmt::format("--host {}: expected an address such as 127.0.0.1 or 0.0.0.0",
                                   options_.host));
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(net::socket_base::reuse_address(true));
    acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (error)
      throw Error(fmt::format("{}:{}: cannot listen ({}): {}", options_.host, options_.port,
                              options_.port_flag, error.message()));
    port_ = acceptor_.local_endpoint().port();
  }

  void accept() {
    acceptor_.async_accept(net::make_strand(io_),
                           [this](boost::system::error_code error, tcp::socket socket) {
                             if (error == net::error::operation_aborted) return;
                             if (error) return accept_later();
                             start(std::move(socket));
                             if (acceptor_.is_open()) accept();
                           });
  }

  // Connections that are there already, whose clients may have sent a request; not as many as come
  // meanwhile.
  void accept_waiting() {
    boost::system::error_code error;
    acceptor_.non_blocking(true, error);
    for (int i = 0; i < net::socket_base::max_listen_connections && !error; ++i) {
      tcp::socket socket(net::make_strand(io_));
      acceptor_.accept(socket, error);
      if (!error) start(std::move(socket));
    }
  }

  // Out of descriptors, say.
  void accept_later() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([this](boost::system::error_code error) {
      if (!error && acceptor_.is_open()) accept();
    });
  }

  void start(tcp::socket socket) {
    boost::system::error_code ignored;
    if (connections() >= max_connections_) {
      if (tls_) return;  // there is nothing to be said before a handshake
      static const std::string busy = [] {
        const std::string_view body =
            R"({"error":"there are as many connections as may be (--max-connections): try again later"})";
        return fmt::format(
            "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: "
            "application/json\r\nContent-Length: {}\r\n\r\n{}",
            body.size(), body);
      }();
      socket.write_some(net::buffer(busy), ignored);
      return;
    }
    // Small answers must not wait for the client's acknowledgement of the one before.
    socket.set_option(tcp::no_delay(true), ignored);
    try {
      start_session(std::move(socket), tls_ ? &*tls_ : nullptr, *this);
    } catch (const std::exception& wrong) {  // out of memory, say
      log::warning("a connection is not taken: {}", wrong.what());
    }
  }

  // Outlives this in the hands of the last one.
  struct Answers {
    std::mutex mutex;
    std::condition_variable given;
    std::size_t waiting = 0;  // guarded by mutex
  };

  ServerOptions options_;
  Handler& handler_;
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  Budget budget_;  // outlives what sessions have taken of it
  std::size_t max_connections_;
  std::optional<net::ssl::context> tls_;
  std::atomic<bool> draining_ = false;
  std::mutex ending_mutex_;       // held by shutdown(): one at a time
  bool all_are_answered_ = true;  // guarded by ending_mutex_
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point
      deadline_;  // guarded by mutex_: of what is answered while it drains
  std::condition_variable ended_;
  std::unordered_set<Session*> sessions_;  // guarded by mutex_
  bool takes_no_more_ = false;             // guarded by mutex_
  // After what sessions use, some of which may end with the context.
  net::io_context io_;
  // Requests that are being computed are no work that the context knows of.
  net::executor_work_guard<net::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_;
  net::steady_timer pause_;
  std::uint16_t port_ = 0;
  ThreadGroup threads_{[this] {
    io_.stop();
  }};
};

Server::Server(const ServerOptions& options, Handler& handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
std::size_t Server::connections() const { return impl_->connections(); }
std::size_t Server::max_connections() const { return impl_->max_connections(); }
Budget& Server::budget() { return static_cast<SessionHost&>(*impl_).budget(); }
void Server::drain() { impl_->drain(); }
bool Server::shutdown(const std::function<void()>& late) { return impl_->shutdown(late); }

}  // namespace sullae::http
