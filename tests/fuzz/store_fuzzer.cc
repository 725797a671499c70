// Strangers at the rendezvous store, before and after they greet as the job's own: the others are
// served on.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/fd.h"
#include "transport/store/protocol.h"
#include "transport/store/store.h"
#include "transport/store/store_server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  if (size < 1) return 0;
  static const auto address = StoreAddress::parse("unix:sullae-fuzz-" + std::to_string(::getpid()));
  static auto* const server = new StoreServer(address, "secret");
  static_cast<void>(server);
  const Deadline deadline(std::chrono::seconds(10), "the fuzzer's patience");
  static auto* const store = new Store(address, deadline, "own/", "secret");
  {
    const auto resolved = resolve(address).front();
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&resolved.storage),
                  resolved.length) != 0)
      std::abort();
    std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 2 == 1) bytes = std::string(store_protocol::kGreeting) + "secret\n" + bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = ::send(fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
  }
  store->set("key", "value", deadline);
  if (store->get("key", deadline) != "value") std::abort();
  return 0;
}
