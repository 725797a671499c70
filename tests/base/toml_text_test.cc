#include "base/toml_text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

std::string checked(std::string_view text) {
  return error_of([&] { check_toml(text, "a.toml"); });
}

TEST(TomlText, MayHaveAnyCharacterInTextsAndComments) {
  for (const char* text :
       {"", "a = 1", "a = \"좋다\" # 좋다\nb = 'é'", "\xef\xbb\xbf# 처음\na = 1",
        "a = \"\"\"\n 좋다 \"\" 좋다\"\"\"\"\"\nb = 1", "a = '''\n좋다'''\n\"키\" = 2",
        "a = \"\\\"좋다\"", "a = \"\"\nb = ''", "a = '\\'\nb = '좋다'"})
    EXPECT_EQ(checked(text), "nothing was thrown") << text;
}

TEST(TomlText, HasOnlyAsciiElsewhere) {
  const std::pair<const char*, int> cases[] = {{"é = 1", 1},
                                               {"a = 1\nb = [1, ͢]", 2},
                                               {"a = \"\"\"\n\n\"\"\" é", 3},
                                               {"a = \"not closed\né = 1", 2},
                                               {"a = '\\' é", 1},
                                               {"a = \"\"\"x\"\"\"\"\" é", 1},
                                               {"a = 1 # é\n좋다 = 2", 2}};
  for (const auto& [text, line] : cases)
    EXPECT_TRUE(contains(checked(text), "a.toml, line " + std::to_string(line) + ": a character"))
        << text << ": " << checked(text);
}

TEST(TomlText, IsReadFromRegularFilesOfSomeSize) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "a.toml";
  EXPECT_TRUE(contains(error_of([&] { read_toml(file); }), "a.toml: cannot be read: No such file"));
  EXPECT_TRUE(contains(error_of([&] { read_toml(directory.path()); }), "is no regular file"));
  std::ofstream(file) << "a = 1\n";
  EXPECT_EQ(read_toml(file), "a = 1\n");
  std::ofstream(file) << std::string((1 << 20) + 1, '\n');
  EXPECT_TRUE(contains(error_of([&] { read_toml(file); }), "has 1048577 bytes, expected at most"));
}

}  // namespace
}  // namespace sullae::testing
