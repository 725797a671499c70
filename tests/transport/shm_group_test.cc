// A host's ranks find each other, or find that one is gone.
#include "transport/shm/shm_group.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <functional>
#include <future>
#include <optional>
#include <thread>

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
  return {.name = "test", .ranks = {0, 1}, .index = index, .timeout = {kGroupPatience, "test"}};
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

// Others may still read what it said last, and hear of its failure where they wait for more.
TEST(Group, WhatAMemberThatFailsHasAnnouncedStays) {
  for (const std::optional<int> rank : {std::optional<int>(0), std::optional<int>()}) {
    Pipe pipe;
    std::barrier<> together(2);
    pipe.at_fence = [&] {
      together.arrive_and_wait();
    };
    std::promise<void> failed;
    std::thread other([&] {
      shm::GroupOptions options = member(0);
      options.timeout = {std::chrono::milliseconds(50), "test"};
      shm::Group group(pipe, options);
      std::memset(group.slot(0, group.next_announcement()), 7, shm::kSlotBytes);
      group.exchange({});
      EXPECT_THROW(group.exchange({}), TimeoutError);
      group.fail("rank 0 has had enough", rank);
      failed.set_value();
    });
    {
      shm::Group group(pipe, member(1));
      const std::byte* const said = group.slot(0, group.next_announcement());
      group.exchange({});
      failed.get_future().wait();
      EXPECT_TRUE(std::all_of(said, said + shm::kSlotBytes,
                              [](std::byte value) { return value == std::byte{7}; }));
      group.exchange({});  // which it has announced
      try {
        group.exchange({});
        ADD_FAILURE() << "a group that has failed goes on";
      } catch (const PeerError& error) {
        EXPECT_TRUE(rank.has_value());
        EXPECT_EQ(error.rank(), 0);
        EXPECT_STREQ(error.what(), "rank 0 has had enough");
      } catch (const MismatchError& error) {
        EXPECT_FALSE(rank.has_value());
        EXPECT_STREQ(error.what(), "rank 0 has had enough");
      }
    }
    other.join();
  }
}

}  // namespace
}  // namespace sullae::testing
