#include "base/file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "sullae/error.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

std::string content(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  TemporaryDirectory directory;
  const auto file = directory.path() / "file";
  write_file(file, "old");
  {
    AtomicFile abandoned(file);
    abandoned.write("new", 3);
  }
  EXPECT_EQ(content(file), "old");
  {
    AtomicFile committed(file);
    committed.write("newer", 5);
    committed.write_at(0, "N", 1);
    EXPECT_EQ(content(file), "old");
    committed.commit();
  }
  EXPECT_EQ(content(file), "Newer");
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
