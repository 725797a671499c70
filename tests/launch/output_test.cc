// What ranks write, on its way to the terminal and to files.
#include "launch/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/content_of.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

// Standard output goes elsewhere for as long as it lives.
class OutputTo {
 public:
  explicit OutputTo(int descriptor) {
    std::fflush(stdout);
    ::dup2(descriptor, STDOUT_FILENO);
  }
  ~OutputTo() {
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
  }
  OutputTo(const OutputTo&) = delete;
  OutputTo& operator=(const OutputTo&) = delete;

 private:
  int before_ = ::dup(STDOUT_FILENO);
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(RankOutput, WaitsForAReaderThatDoesNotWantItToBlock) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string line(1000, 'x');
  constexpr std::size_t kLines = 1000;  // a pipe holds fewer
  std::string read;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
      read.append(buffer.data(), static_cast<std::size_t>(n));
  });
  {
    const OutputTo pipe(ends[1]);
    RankOutput output({.tag = false});
    for (std::size_t i = 0; i < kLines; ++i) output.write(0, STDOUT_FILENO, line + "\n");
    EXPECT_TRUE(output.open());
  }
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(read.size(), kLines * (line.size() + 1));
}

TEST(RankOutput, DoesNotWaitForWhoReadsNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  {
    const OutputTo pipe(ends[1]);
    RankOutput output({.tag = false});
    const std::string line(1000, 'x');
    for (int i = 0; i < 500; ++i) output.write(0, STDOUT_FILENO, line + "\n");
    EXPECT_TRUE(output.has_more());
    EXPECT_FALSE(output.is_full());
    for (int i = 0; i < 10'000; ++i) output.write(0, STDOUT_FILENO, line + "\n");
    EXPECT_TRUE(output.is_full());
    EXPECT_TRUE(output.open());
    std::vector<pollfd> polled;
    output.add_to_poll(polled);
    ASSERT_EQ(polled.size(), 1U);
    EXPECT_EQ(polled[0].fd, STDOUT_FILENO);
    ::close(ends[0]);                                    // nobody ever does
    auto* const before = std::signal(SIGPIPE, SIG_IGN);  // as in the launcher
    output.send_on();
    std::signal(SIGPIPE, before);
    EXPECT_FALSE(output.has_more());
    EXPECT_FALSE(output.open());
  }
  ::close(ends[1]);
}

TEST(RankOutput, KeepsNothingOfWhoHasEnded) {
  const TemporaryDirectory directory;
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  {
    const OutputTo nowhere(null);
    RankOutput output({.directory = directory.path()});
    const auto before = open_descriptors();
    for (const int rank : {0, 1, 2}) {
      output.write(rank, STDOUT_FILENO, "one\nno end");
      output.finish(rank);
    }
    EXPECT_EQ(open_descriptors(), before);
    output.write(1, STDOUT_FILENO, "\ntwo\n");
    output.finish(1);
  }
  ::close(null);
  EXPECT_EQ(content_of(directory.path() / "rank-0.log"), "one\nno end");
  EXPECT_EQ(content_of(directory.path() / "rank-1.log"), "one\nno end\ntwo\n");
}

TEST(RankOutput, AddsToFilesWhereItIsToldTo) {
  const TemporaryDirectory directory;
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  {
    const OutputTo nowhere(null);
    for (const bool append : {false, true}) {
      RankOutput output({.directory = directory.path(), .append = append});
      output.write(0, STDOUT_FILENO, append ? "second\n" : "first\n");
    }
  }
  ::close(null);
  EXPECT_EQ(content_of(directory.path() / "rank-0.log"), "first\nsecond\n");
}

}  // namespace
}  // namespace sullae::testing
