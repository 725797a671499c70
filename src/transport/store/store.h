// A client of the rendezvous store.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/fd.h"
#include "transport/store/address.h"

namespace sullae {

/// Any thread may call; calls are served one after another.
class Store {
 public:
  /// Connects, retrying until the server is up. `prefix` is put before every key; `secret` is the
  /// job's, see StoreServer. Throws TimeoutError at the deadline, and Error where another user's
  /// process serves a unix address.
  Store(const StoreAddress& address, const Deadline& deadline, std::string prefix = {},
        std::string_view secret = {});

  void set(std::string_view key, std::string_view value, const Deadline& deadline);
  /// Waits until the key exists. After a TimeoutError every later call throws.
  std::string get(std::string_view key, const Deadline& deadline);
  /// Adds to a counter that starts at 0 and returns its new value. Counters and values are apart.
  long long add(std::string_view key, long long delta, const Deadline& deadline);
  /// The call that waits, and all later ones, throw Error.
  void cancel() const;
  /// So do they when the server cannot be reached any more; see kStoreLease.
  void watch() const;

 private:
  std::string request(char command, std::string_view key, std::string_view value,
                      const Deadline& deadline);
  void send_all(std::string_view bytes, const Deadline& deadline);
  void receive_all(char* into, std::size_t bytes, const Deadline& deadline);
  void await(short events, const Deadline& deadline) const;

  std::string address_;
  std::string prefix_;
  std::mutex mutex_;  // guards the connection, one request and its reply at a time
  UniqueFd fd_;       // from the constructor to the end
};

}  // namespace sullae
