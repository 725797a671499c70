// What is in files, when it is read again, and what is none.
#include "pipeline/contents.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::error_of;

class AContent : public ::testing::Test {
 protected:
  Contents contents() const {
    return {directory_.path() / "cache.json", [] {
              return false;
            }};
  }
  fs::path path(const std::string& name) const { return directory_.path() / "made" / name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(path(name).parent_path());
    write_file(path(name), text);
  }
  testing::TemporaryDirectory directory_;
};

TEST_F(AContent, IsEqualWhereFilesAre) {
  write("a", "one");
  auto seen = contents();
  const auto one = seen.of(path("a"));
  write("b", "one");
  EXPECT_EQ(seen.of(path("b")), one);
  write("b", "two");
  EXPECT_NE(seen.of(path("b")), one);
  EXPECT_EQ(seen.of(path("c")), std::nullopt);
}

// A folder of releases, say, of which one is the current one; a link that leads back ends there.
TEST_F(AContent, IsAlsoWhatIsBehindLinks) {
  write("releases/1/a", "one");
  write("releases/2/a", "two");
  fs::create_directories(path("data"));
  fs::create_directory_symlink(path("releases/1"), path("data/current"));
  fs::create_directory_symlink(path("data"), path("data/itself"));
  auto seen = contents();
  const auto first = seen.of(path("data"));
  fs::remove(path("data/current"));
  fs::create_directory_symlink(path("releases/2"), path("data/current"));
  const auto second = seen.of(path("data"));
  EXPECT_NE(second, first);
  write("releases/2/a", "ten");
  EXPECT_NE(seen.of(path("data")), second);
}

TEST_F(AContent, ThatIsYoungIsNotKnownByItsTime) {
  write("a", "one");
  auto seen = contents();
  EXPECT_TRUE(seen.of(path("a")).has_value());
  seen.save();
  EXPECT_EQ(read_file(directory_.path() / "cache.json", 1000), "{}");
}

// Nothing but an end would end it otherwise: the file is some TiB.
TEST_F(AContent, IsNotReadToItsEndWhereTheRunIsToEnd) {
  write("a", "");
  fs::resize_file(path("a"), std::uintmax_t{1} << 40);
  int asked = 0;
  Contents seen(directory_.path() / "cache.json", [&] { return ++asked == 3; });
  EXPECT_THROW(seen.of(path("a")), Interrupted);
  EXPECT_EQ(asked, 3);
}

TEST_F(AContent, OfWhatIsNoFileIsRefused) {
  write("a", "one");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  auto seen = contents();
  for (const auto& place : {path("pipe"), path("")})
    EXPECT_TRUE(
        contains(error_of([&] { seen.of(place); }), "made/pipe: is neither a file nor a folder"));
}

TEST_F(AContent, OfALinkToNothingIsWhereItPoints) {
  write("a", "one");
  auto seen = contents();
  const auto without = seen.of(path(""));
  fs::create_symlink("nowhere", path("link"));
  const auto with = seen.of(path(""));
  EXPECT_TRUE(with.has_value());
  EXPECT_NE(with, without);
  fs::remove(path("link"));
  fs::create_symlink("elsewhere", path("link"));
  EXPECT_NE(seen.of(path("")), with);
  fs::remove(path("link"));
  EXPECT_EQ(seen.of(path("")), without);
}

}  // namespace
}  // namespace sullae::pipeline
