// The program that init_test starts: joins the world and says what it found.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/interruption.h"
#include "sullae/sullae.h"

namespace {

// Binds to a port that the kernel chooses, and prints it.
int bind_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof name;
  ::bind(fd, reinterpret_cast<sockaddr*>(&name), length);
  ::listen(fd, 1);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length);
  return ntohs(name.sin_port);
}

// Rank 1 is going to be killed. Rank 0 meets that in a blocking collective, in the negotiation of
// an operation, between and within operations, or after it has happened.
void wait_for_the_other(const std::string& mode) {
  std::vector<float> values(100000, 1.0F);
  const std::span<float> all(values);
  if (mode == "wait-in-a-stream") {
    for (;;) {
      sullae::allreduce_async(all, sullae::ReduceOp::average, {.name = "gradient"}).wait();
      sullae::allreduce(all, sullae::ReduceOp::average);
    }
  }
  if (sullae::rank() == 1) ::pause();
  if (mode == "wait") sullae::barrier();
  if (mode == "wait-for-message") sullae::receive(all, sullae::kAnySource);
  if (mode == "wait-for-its-message") sullae::receive(all, 1);
  if (mode == "wait-for-receiver") sullae::send(std::span<const float>(values), 1);
  if (mode == "wait-for-later") ::sleep(1);
  sullae::allreduce_async(all, sullae::ReduceOp::sum, {.name = "gradient"}).wait();
}

// Three worlds one after another; all but the last end with an error on rank 0.
int join_again() {
  for (int i = 0; i < 3; ++i) {
    sullae::init();
    int value = sullae::rank() + 1;
    sullae::allreduce(std::span(&value, 1));
    std::printf("rank %d of %d, sum %d\n", sullae::rank(), sullae::size(), value);
    if (i < 2 && sullae::rank() == 0) {
      try {
        sullae::allreduce_async(std::span(&value, 1)).wait();
      } catch (const sullae::PeerError& error) {
        std::printf("%s\n", error.what());
      }
    }
    sullae::shutdown();
  }
  return 0;
}

// Of two workers of an elastic job, each on a host of its own, one is done, and then the other's
// host is lost.
int lose_host() {
  sullae::init();
  const bool goes_first = sullae::rank() == 0;
  int first = goes_first ? ::getpid() : 0;
  sullae::allreduce(std::span(&first, 1));
  if (goes_first) return 0;
  while (::kill(first, 0) == 0) ::usleep(10000);
  ::sleep(2);  // until the launcher has heard of it
  ::kill(::getppid(), SIGKILL);
  ::pause();
  return 1;
}

// As a signal's handler of an interpreter does, which may ask for the world before it throws.
int be_interrupted() {
  const sullae::Interruptible at_once([] {
    sullae::shutdown();
    throw sullae::Error(sullae::is_initialized() ? "interrupted within a world" : "interrupted");
  });
  try {
    sullae::init();
  } catch (const sullae::Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode.starts_with("wait")) {
    try {
      sullae::init();
      std::printf("joined\n");
      std::fflush(stdout);
      wait_for_the_other(mode);
    } catch (const sullae::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
    return 0;
  }
  if (mode == "again") return join_again();
  if (mode == "lose-host") return lose_host();
  if (mode == "interrupted") return be_interrupted();
  if (mode == "hold-port") {
    std::printf("%d\n", bind_port());
    std::fflush(stdout);
    ::pause();
    return 0;
  }
  try {
    sullae::init();
    int value = sullae::rank() + 1;
    sullae::allreduce(std::span(&value, 1));
    std::printf("rank %d of %d, sum %d\n", sullae::rank(), sullae::size(), value);
  } catch (const sullae::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
