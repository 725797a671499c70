#include "transport/store/store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/interruption.h"
#include "sullae/error.h"
#include "support/errors.h"
#include "support/wait_until.h"
#include "transport/store/listen.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

Deadline soon() { return {std::chrono::seconds{20}, "the test's patience"}; }
Deadline at_once() { return {std::chrono::milliseconds{100}, "SULLAE_RENDEZVOUS_TIMEOUT"}; }

StoreAddress address_of(const StoreServer& server) {
  StoreAddress address;
  address.host = "127.0.0.1";
  address.port = server.port();
  return address;
}

const StoreAddress kAnyPort = StoreAddress::parse("127.0.0.1:0");

TEST(Store, SetsGetsAndAdds) {
  const StoreServer server(kAnyPort);
  Store a(address_of(server), soon());
  Store b(address_of(server), soon());
  a.set("key", "value", soon());
  EXPECT_EQ(b.get("key", soon()), "value");
  const std::string binary("\0\n\xff", 3);
  b.set("key", binary, soon());
  EXPECT_EQ(a.get("key", soon()), binary);
  EXPECT_EQ(a.add("counter", 5, soon()), 5);
  EXPECT_EQ(b.add("counter", -2, soon()), 3);
  a.set("empty", "", soon());
  EXPECT_EQ(a.get("empty", soon()), "");
  const std::string large(3'000'000, 'x');
  a.set("large", large, soon());
  EXPECT_EQ(b.get("large", soon()), large);
}

// Debian's /etc/hosts says "127.0.1.1 node1" on node1.
TEST(Store, ANameThatLeadsToLoopbackIsServedToOtherHostsToo) {
  const auto listens = [](const std::string& name, const std::string& leads_to) {
    StoreAddress named{.host = name, .port = 4711, .unix_name = ""};
    const auto known = resolve({.host = leads_to, .port = 4711, .unix_name = ""});
    const auto listening = listening_address(named, known.at(0));
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> port{};
    EXPECT_EQ(::getnameinfo(reinterpret_cast<const sockaddr*>(&listening.storage), listening.length,
                            host.data(), host.size(), port.data(), port.size(),
                            NI_NUMERICHOST | NI_NUMERICSERV),
              0);
    EXPECT_EQ(std::string(port.data()), "4711");
    return std::string(host.data());
  };
  EXPECT_EQ(listens("node1", "127.0.1.1"), "0.0.0.0");
  EXPECT_EQ(listens("node1", "::1"), "::");
  EXPECT_EQ(listens("node1", "192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(listens("localhost", "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(listens("127.0.1.1", "127.0.1.1"), "127.0.1.1");
  EXPECT_EQ(listens("::1", "::1"), "::1");
}

// A socket whose queue is full answers nobody.
TEST(Store, AnAddressThatDoesNotAnswerDoesNotTakeTheTimeOfTheNext) {
  const auto addresses = resolve({.host = "localhost", .port = 0, .unix_name = ""});
  if (addresses.size() < 2 || addresses.front().family == addresses.back().family)
    GTEST_SKIP() << "localhost has one address here";
  const bool last_is_6 = addresses.back().family == AF_INET6;
  const StoreServer server(StoreAddress::parse(last_is_6 ? "[::1]:0" : "127.0.0.1:0"));
  const auto silent =
      resolve({.host = last_is_6 ? "127.0.0.1" : "::1", .port = server.port(), .unix_name = ""});
  const auto* const name = reinterpret_cast<const sockaddr*>(&silent.at(0).storage);
  const UniqueFd listener(::socket(silent[0].family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), name, silent[0].length) != 0)
    GTEST_SKIP() << "the port is another program's at the other address";
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<UniqueFd> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back(::socket(silent[0].family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(waiting.back().get(), name, silent[0].length);
  }
  Store store({.host = "localhost", .port = server.port(), .unix_name = ""}, soon());
  store.set("key", "value", soon());
  EXPECT_EQ(store.get("key", soon()), "value");
}

TEST(Store, GetWaitsForTheKey) {
  const StoreServer server(
      StoreAddress::parse("unix:sullae-store-test-" + std::to_string(::getpid())));
  const auto address = StoreAddress::parse("unix:sullae-store-test-" + std::to_string(::getpid()));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back([&] {
      Store store(address, soon());
      EXPECT_EQ(store.get("late", soon()), "now");
    });
  }
  Store store(address, soon());
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  store.set("late", "now", soon());
  for (auto& thread : waiting) thread.join();
}

struct Interrupted {};

TEST(Store, AnInterruptionEndsTheWaitAndTheConnection) {
  const StoreServer server(kAnyPort);
  Store store(address_of(server), soon());
  {
    const Interruptible at_once([] { throw Interrupted(); });
    EXPECT_THROW(store.get("never", soon()), Interrupted);
  }
  EXPECT_THROW(store.set("key", "value", soon()), Error) << "the reply to get may still come";
  const Interruptible at_once([] { throw Interrupted(); });
  EXPECT_THROW(Store(StoreAddress::parse("unix:sullae-store-test-nobody"), soon()), Interrupted);
}

TEST(Store, AKeyThatDoesNotComeEndsTheWait) {
  const StoreServer server(kAnyPort);
  Store store(address_of(server), soon());
  EXPECT_NE(error_of([&] {
              store.get("never", at_once());
            }).find("did not answer within 0.1 s (SULLAE_RENDEZVOUS_TIMEOUT)"),
            std::string::npos);
}

TEST(Store, AServerThatIsNotThereIsNamed) {
  int port = 0;
  {
    const StoreServer server(kAnyPort);
    port = server.port();
  }
  StoreAddress address = kAnyPort;
  address.port = port;
  const auto error = error_of([&] { Store(address, at_once()); });
  EXPECT_NE(error.find("no rendezvous store answered at 127.0.0.1:" + std::to_string(port) +
                       " within 0.1 s"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("Connection refused"), std::string::npos) << error;
}

TEST(Store, AHostThatIsNotKnownIsNamed) {
  const auto error =
      error_of([&] { Store(StoreAddress::parse("no-such-host.invalid:1"), at_once()); });
  EXPECT_NE(error.find("host 'no-such-host.invalid' cannot be resolved"), std::string::npos)
      << error;
}

TEST(Store, AServerThatStartsLaterIsFound) {
  const auto name = "unix:sullae-late-" + std::to_string(::getpid());
  std::thread client([&] {
    Store store(StoreAddress::parse(name), soon());
    store.set("a", "b", soon());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  const StoreServer server(StoreAddress::parse(name));
  client.join();
}

TEST(Store, IsCancelledFromAnotherThread) {
  const StoreServer server(kAnyPort);
  Store store(address_of(server), soon());
  std::thread waits([&] { EXPECT_THROW(store.get("never", soon()), Error); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  store.cancel();
  waits.join();
  EXPECT_THROW(store.set("key", "value", soon()), Error);
}

TEST(StoreServer, HearsAndSetsByItself) {
  std::mutex mutex;
  std::vector<std::string> heard;
  const auto hear = [&](const std::string& what) {
    const std::lock_guard lock(mutex);
    heard.push_back(what);
  };
  StoreServer server(
      kAnyPort, "",
      {.on_set = [&](const auto& key, const auto& value) { hear(key + "=" + value); },
       .on_gone =
           [&](const auto& key) {
             hear(key + " is gone");
           }});
  std::optional<Store> going(std::in_place, address_of(server), soon());
  going->watch();
  Store store(address_of(server), soon());
  store.set("a", "1", soon());
  store.add("b", 1, soon());
  std::thread waits([&] { EXPECT_EQ(store.get("c", soon()), "3"); });
  server.set("c", "3");
  waits.join();
  going->set("d", "4", soon());
  going.reset();
  const auto all = [&] {
    const std::lock_guard lock(mutex);
    return heard.size() == 3;
  };
  wait_until(all);
  const std::lock_guard lock(mutex);
  // What clients have set, and who they were.
  EXPECT_EQ(heard, (std::vector<std::string>{"a=1", "d=4", "d is gone"}));
}

TEST(StoreServer, WhoWaitsForWhatIsGivenUpWaitsNoLonger) {
  StoreServer server(kAnyPort);
  Store waits(address_of(server), soon());
  Store late(address_of(server), soon());
  Store other(address_of(server), soon());
  other.set("7/there", "x", soon());
  std::thread waiting([&] { EXPECT_THROW(waits.get("7/never", soon()), Error); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.give_up("7/");
  waiting.join();
  EXPECT_THROW(late.get("7/there", soon()), Error);
  other.set("70/key", "y", soon());
  EXPECT_EQ(other.get("70/key", soon()), "y");
}

TEST(StoreServer, APortInUseIsNamed) {
  const StoreServer first(kAnyPort);
  const auto error = error_of([&] { StoreServer second(address_of(first)); });
  EXPECT_NE(error.find("cannot listen on 127.0.0.1:" + std::to_string(first.port())),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("in use by another program"), std::string::npos) << error;
}

// Whatever connects to the port and speaks something else is dropped, and the others go on.
TEST(StoreServer, StrangersAreDropped) {
  const StoreServer server(kAnyPort);
  Store store(address_of(server), soon());
  const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::send(stranger, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  char byte = 0;
  EXPECT_LE(::recv(stranger, &byte, 1, 0), 0) << "the connection is closed";
  ::close(stranger);
  store.set("still", "there", soon());
  EXPECT_EQ(store.get("still", soon()), "there");
}

TEST(StoreServer, ListensToItsOwnJobAlone) {
  const StoreServer server(kAnyPort, "the right one");
  Store store(address_of(server), soon(), {}, "the right one");
  store.set("key", "value", soon());
  for (const char* secret : {"", "the right on", "the right one and more", "the wrong one"}) {
    const auto error = error_of([&] {
      Store stranger(address_of(server), soon(), {}, secret);
      stranger.get("key", soon());
    });
    EXPECT_TRUE(contains(error, "SULLAE_JOB_SECRET differs") || contains(error, "is gone"))
        << error;
  }
  EXPECT_EQ(store.get("key", soon()), "value");
}

// It goes on when there are descriptors again, and does not turn in circles meanwhile.
TEST(StoreServer, StandsARunOutOfDescriptors) {
  const StoreServer server(kAnyPort);
  Store store(address_of(server), soon());
  store.set("it", "is accepted", soon());
  const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // As many as there are now, and no more.
  struct Limit {
    Limit() {
      ::getrlimit(RLIMIT_NOFILE, &before);
      // poll() takes no more descriptors than the limit, whatever their numbers.
      while (taken.empty() || taken.back() < 32) taken.push_back(::dup(1));
      const int next = ::dup(1);
      ::close(next);
      rlimit full = before;
      full.rlim_cur = static_cast<rlim_t>(next);
      ::setrlimit(RLIMIT_NOFILE, &full);
    }
    ~Limit() {
      ::setrlimit(RLIMIT_NOFILE, &before);
      for (const int fd : taken) ::close(fd);
    }
    rlimit before{};
    std::vector<int> taken;
  };
  std::optional<Limit> full(std::in_place);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  store.set("still", "there", soon());
  full.reset();
  // Half a second of turning would be thousands of switches.
  EXPECT_LT(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw, 200);
  Store another(address_of(server), soon());
  EXPECT_EQ(another.get("still", soon()), "there");
  ::close(stranger);
}

TEST(StoreAddress, IsParsed) {
  EXPECT_EQ(StoreAddress::parse("tcp://h:80").to_string(), "h:80");
  EXPECT_EQ(StoreAddress::parse("[::1]:80").host, "::1");
  EXPECT_EQ(StoreAddress::parse("[::1]:80").to_string(), "[::1]:80");
  EXPECT_EQ(StoreAddress::parse("unix:x").to_string(), "unix:x");
  for (const char* text : {"", "host", "host:", ":80", "host:99999", "unix:", "host:x"}) {
    EXPECT_THROW(StoreAddress::parse(text), InputError) << text;
  }
}

}  // namespace
}  // namespace sullae::testing
