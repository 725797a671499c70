#include "base/file.h"

#include <gtest/gtest.h>

#include <iterator>

#include "sullae/error.h"
#include "support/content_of.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  TemporaryDirectory directory;
  const auto file = directory.path() / "file";
  write_file(file, "old");
  {
    AtomicFile abandoned(file);
    abandoned.write("new", 3);
  }
  EXPECT_EQ(content_of(file), "old");
  {
    AtomicFile committed(file);
    committed.write("newer", 5);
    committed.write_at(0, "N", 1);
    EXPECT_EQ(content_of(file), "old");
    committed.commit();
  }
  EXPECT_EQ(content_of(file), "Newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(AtomicFile, NamesTheFileThatCannotBeWritten) {
  try {
    write_file("/no/such/directory/file", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "/no/such/directory/file cannot be written: No such file or directory");
  }
}

}  // namespace
}  // namespace sullae::testing
