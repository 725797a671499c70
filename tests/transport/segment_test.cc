#include "transport/shm/segment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <iterator>

#include "sullae/error.h"

namespace sullae::testing {
namespace {

using shm::Segment;

TEST(Segment, IsSharedWithAnotherProcess) {
  const Segment segment = Segment::create(5'000'000);
  EXPECT_EQ(segment.data()[4'999'999], std::byte{0});
  const auto handle = segment.handle();
  const pid_t child = ::fork();
  if (child == 0) {
    // As another process would: the handle names its parent.
    const Segment mapped = Segment::open(handle);
    std::memcpy(mapped.data() + 4'000'000, "hello", 5);
    ::_exit(mapped.data() == segment.data() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::memcmp(segment.data() + 4'000'000, "hello", 5), 0);
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Segment, OfAnotherProcessTakesNoDescriptorForLong) {
  const Segment segment = Segment::create(100);
  const auto handle = segment.handle();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto before = open_descriptors();
    const Segment mapped = Segment::open(handle);
    *mapped.data() = std::byte{7};
    ::_exit(open_descriptors() == before ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*segment.data(), std::byte{7});
}

TEST(Segment, StaysWhenItsFileIsClosed) {
  const auto before = open_descriptors();
  const Segment segment = Segment::create(100);
  segment.close_file();
  EXPECT_EQ(open_descriptors(), before);
  *segment.data() = std::byte{7};
  EXPECT_EQ(*segment.data(), std::byte{7});
}

TEST(Segment, OfThisProcessIsUsedWhereItIs) {
  const Segment segment = Segment::create(100);
  EXPECT_EQ(Segment::open(segment.handle()).data(), segment.data());
}

TEST(Segment, LivesAsLongAsAnyOwner) {
  Segment first = Segment::create(100);
  const Segment second = first;
  const auto handle = first.handle();
  first = Segment();
  *second.data() = std::byte{1};
  EXPECT_EQ(Segment::open(handle).data(), second.data());
}

TEST(Segment, ThatIsGoneIsAnError) {
  const auto handle = Segment::create(100).handle();
  EXPECT_THROW(Segment::open(handle), Error);
  auto elsewhere = handle;
  elsewhere.pid = 1;
  elsewhere.fd = 999;
  EXPECT_THROW(Segment::open(elsewhere), Error);
}

}  // namespace
}  // namespace sullae::testing
