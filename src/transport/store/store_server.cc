#include "transport/store/store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/secret.h"
#include "base/system_error.h"
#include "transport/store/lease.h"
#include "transport/store/listen.h"
#include "transport/store/peer_user.h"
#include "transport/store/protocol.h"

namespace sullae {
namespace {

using store_protocol::Command;
using store_protocol::RequestHeader;

// How long no client is taken after one could not be.
constexpr std::chrono::milliseconds kAcceptPause{100};

bool may_become_greeting(std::string_view input) {
  constexpr auto kStart = store_protocol::kGreeting;
  return input.size() <= kStart.size() + store_protocol::kMaxSecretBytes &&
         input.substr(0, kStart.size()) == kStart.substr(0, input.size());
}

struct Client {
  UniqueFd fd;
  std::string input;
  std::string output;
  bool greeted = false;
  std::string last_key;
};

void reply(Client& client, std::string_view value) {
  const auto length = static_cast<std::uint32_t>(value.size());
  client.output.append(reinterpret_cast<const char*>(&length), sizeof length);
  client.output.append(value);
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(const StoreAddress& address, std::string secret, Listener listener)
      : tells_(std::move(listener)),
        greeting_(fmt::format("{}{}", store_protocol::kGreeting, secret)),
        checks_user_(address.is_unix() && secret.empty()),
        listener_(listen_on(address)),
        port_(port_of(listener_.get())),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { serve(); }) {}

  ~Impl() {
    post({});
    thread_.join();
  }

  void set(std::string key, std::string value) {
    post([this, key = std::move(key), value = std::move(value)]() mutable {
      values_[key] = std::move(value);
      answer_waiting(key);
    });
  }

  void give_up(std::string prefix) {
    post([this, prefix = std::move(prefix)] {
      const auto is_of_it = [&](const auto& entry) {
        return entry.first.starts_with(prefix);
      };
      std::erase_if(values_, is_of_it);
      std::erase_if(counters_, is_of_it);
      std::vector<int> waiting;
      for (const auto& [key, ids] : waiting_) {
        if (key.starts_with(prefix)) waiting.insert(waiting.end(), ids.begin(), ids.end());
      }
      for (const int id : waiting) remove_client(id);
      given_up_.push_back(prefix);
    });
  }

  int port() const { return port_; }

  void drain(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    gone_.wait_for(lock, limit, [this] { return client_count_ == 0; });
  }

 private:
  using Work = std::function<void()>;  // an empty one ends the thread

  void post(Work work) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(work));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }

  // False where this is the end.
  bool do_posted() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof count);
    std::vector<Work> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
    }
    for (const Work& work : posted) {
      if (!work) return false;
      work();
    }
    return true;
  }

  void serve() {
    std::vector<pollfd> polled;
    std::vector<int> ids;
    for (;;) {
      // Out of descriptors, a client that waits would wake this thread without end.
      const bool accepts = std::chrono::steady_clock::now() >= accept_again_;
      polled.assign({{wake_.get(), POLLIN, 0},
                     {listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0}});
      ids.clear();
      for (const auto& [id, client] : clients_) {
        const short events = client.output.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({client.fd.get(), events, 0});
        ids.push_back(id);
      }
      const int limit = accepts ? -1 : static_cast<int>(kAcceptPause.count());
      if (::poll(polled.data(), polled.size(), limit) < 0) {
        // Also where the limit of descriptors was lowered below what is open: it may be raised
        // again.
        std::this_thread::sleep_for(kAcceptPause);
        continue;
      }
      if (polled[0].revents != 0) {
        if (!do_posted()) return;
        continue;  // clients may have gone
      }
      if (polled[1].revents != 0) accept_clients();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (polled[i + 2].revents != 0 && !serve_client(ids[i])) remove_client(ids[i]);
      }
    }
  }

  void accept_clients() {
    for (;;) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
          accept_again_ = std::chrono::steady_clock::now() + kAcceptPause;
        return;
      }
      if (checks_user_ && !is_own_or_root(peer_user(fd.get()))) continue;
      const int yes = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      if (tells_.on_gone) watch_connection(fd.get());
      clients_[next_id_++].fd = std::move(fd);
      set_client_count();
    }
  }

  void remove_client(int id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    const std::string last_key = std::move(found->second.last_key);
    clients_.erase(found);
    if (tells_.on_gone && !last_key.empty()) tells_.on_gone(last_key);
    for (auto& [key, waiting] : waiting_) std::erase(waiting, id);
    set_client_count();
  }

  void set_client_count() {
    const std::lock_guard lock(mutex_);
    client_count_ = clients_.size();
    if (client_count_ == 0) gone_.notify_all();
  }

  // False when the client is to be dropped: it left, or sent what no client of this store sends.
  bool serve_client(int id) {
    Client& client = clients_.at(id);
    char buffer[65536];
    // What is read is looked at before more is read: strangers may send without end.
    const auto n = ::recv(client.fd.get(), buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) client.input.append(buffer, static_cast<std::size_t>(n));
    if (!client.greeted) {
      const auto end = client.input.find('\n');
      // The secret is compared whole: who could try its beginning would find it byte by byte.
      if (end == std::string::npos) return may_become_greeting(client.input);
      if (!equal_in_constant_time(std::string_view(client.input).substr(0, end), greeting_))
        return false;
      client.input.erase(0, end + 1);
      client.greeted = true;
    }
    while (const std::size_t used = handle_request(id, client)) {
      if (used == kBadRequest) return false;
      client.input.erase(0, used);
    }
    return flush(client);
  }

  static constexpr std::size_t kBadRequest = static_cast<std::size_t>(-1);

  // Bytes of the request that was handled, 0 when more must arrive first.
  std::size_t handle_request(int id, Client& client) {
    RequestHeader header{};
    if (client.input.size() < sizeof header) return 0;
    std::memcpy(&header, client.input.data(), sizeof header);
    if (header.key_bytes > store_protocol::kMaxKeyBytes ||
        header.value_bytes > store_protocol::kMaxValueBytes) {
      return kBadRequest;
    }
    const std::size_t total = sizeof header + header.key_bytes + header.value_bytes;
    if (client.input.size() < total) return 0;
    const std::string key = client.input.substr(sizeof header, header.key_bytes);
    std::string value = client.input.substr(sizeof header + header.key_bytes, header.value_bytes);
    if (std::ranges::any_of(given_up_, [&](const auto& prefix) { return key.starts_with(prefix); }))
      return kBadRequest;
    switch (header.command) {
      case Command::set:
        if (tells_.on_set) tells_.on_set(key, value);
        if (tells_.on_gone) client.last_key = key;
        values_[key] = std::move(value);
        reply(client, "");
        answer_waiting(key);
        return total;
      case Command::get:
        if (const auto found = values_.find(key); found != values_.end()) {
          reply(client, found->second);
        } else {
          waiting_[key].push_back(id);
        }
        return total;
      case Command::add: {
        long long& counter = counters_[key];
        // What a stranger adds may be any number.
        counter =
            static_cast<long long>(static_cast<unsigned long long>(counter) +
                                   static_cast<unsigned long long>(std::atoll(value.c_str())));
        reply(client, std::to_string(counter));
        return total;
      }
    }
    return kBadRequest;
  }

  void answer_waiting(const std::string& key) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    for (const int id : found->second) {
      Client& client = clients_.at(id);
      reply(client, values_[key]);
      // A client that cannot be written to is dropped when its own events are served.
      flush(client);
    }
    waiting_.erase(found);
  }

  static bool flush(Client& client) {
    while (!client.output.empty()) {
      const auto n =
          ::send(client.fd.get(), client.output.data(), client.output.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      client.output.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  Listener tells_;
  std::string greeting_;
  bool checks_user_;  // of clients that need not know a secret
  UniqueFd listener_;
  int port_;
  UniqueFd wake_;

  // Touched by the serving thread alone.
  std::map<int, Client> clients_;
  int next_id_ = 0;
  std::chrono::steady_clock::time_point accept_again_{};
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, long long> counters_;
  std::unordered_map<std::string, std::vector<int>> waiting_;
  std::vector<std::string> given_up_;

  std::mutex mutex_;  // guards the two below
  std::size_t client_count_ = 0;
  std::vector<Work> posted_;
  std::condition_variable gone_;

  std::thread thread_;
};

StoreServer::StoreServer(const StoreAddress& address, std::string secret)
    : StoreServer(address, std::move(secret), {}) {}
StoreServer::StoreServer(const StoreAddress& address, std::string secret, Listener listener)
    : impl_(std::make_unique<Impl>(address, std::move(secret), std::move(listener))) {}
// A fork has a copy of what has a thread elsewhere: it stays.
StoreServer::~StoreServer() {
  if (!process_.is_here()) static_cast<void>(impl_.release());
}
int StoreServer::port() const { return impl_->port(); }
void StoreServer::set(std::string key, std::string value) {
  impl_->set(std::move(key), std::move(value));
}
void StoreServer::give_up(std::string prefix) { impl_->give_up(std::move(prefix)); }
void StoreServer::drain() { impl_->drain(kDrainLimit); }

}  // namespace sullae
