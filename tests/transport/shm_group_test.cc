// A host's ranks find each other, or find that one is gone.
#include "transport/shm/shm_group.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "support/errors.h"
#include "transport/shm/waiting.h"

namespace sullae::testing {
namespace {

constexpr std::chrono::seconds kGroupPatience{20};

// Between this process and a child of it.
class Pipe final : public Rendezvous {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() override {
    for (const int end : ends_) ::close(end);
  }
  void put(std::span<const int>, std::string_view, std::string_view value) override {
    EXPECT_EQ(::write(ends_[1], value.data(), value.size()), static_cast<ssize_t>(value.size()));
  }
  std::string get(int, std::string_view) override {
    std::string value(sizeof(shm::SegmentHandle), '\0');
    const auto n = ::read(ends_[0], value.data(), value.size());
    value.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return value;
  }
  void fence(std::span<const int>, std::string_view) override { at_fence(); }

  std::function<void()> at_fence;

 private:
  std::array<int, 2> ends_{};
};

shm::GroupOptions member(int index) {
  return {.name = "test", .ranks = {0, 1}, .index = index, .timeout = kGroupPatience};
}

// Who has been reaped has no descriptor by which its end could be noticed.
TEST(Group, AMemberThatDiesBeforeItIsWatchedIsNamed) {
  if (!shm::open_process(::getpid())) GTEST_SKIP() << "this kernel has no pidfd_open";
  Pipe pipe;
  const pid_t child = ::fork();
  if (child == 0) {
    pipe.at_fence = [] {
      ::_exit(0);
    };
    shm::Group(pipe, member(1));
    ::_exit(1);
  }
  pipe.at_fence = [&] {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  };
  const auto error = error_of<PeerError>([&] { shm::Group(pipe, member(0)); });
  EXPECT_TRUE(contains(error, "rank 1 (process " + std::to_string(child))) << error;
  EXPECT_TRUE(contains(error, "died")) << error;
}

}  // namespace
}  // namespace sullae::testing
