#include "base/toml_file.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

struct Values {
  int count = 0;
  double rate = 0;
  bool is_on = false;
  std::string name;
  std::vector<std::string> names;
  std::map<std::string, std::string> pairs;
  int inner = 0;
};

Values read(const std::string& text) {
  const TomlFile file("f.toml");
  const toml::table table = file.parse(text);
  Values values;
  file.apply(table,
             {{"count", file.integer_into(values.count, 1, 9)},
              {"rate", file.number_into(values.rate, 0, 1)},
              {"is_on", file.truth_into(values.is_on)},
              {"name", file.text_into(values.name)},
              {"names", file.texts_into(values.names)},
              {"pairs", file.pairs_into(values.pairs)},
              {"way",
               [&](const toml::node& node) {
                 file.one_of(node, {"a", "b"});
               }},
              {"table", [&](const toml::node& node) {
                 file.apply(*node.as_table(), {{"inner", file.integer_into(values.inner, 0, 9)}});
                 if (values.inner == 7) file.expect(node, "another");
               }}});
  return values;
}

TEST(TomlFile, PutsValuesWhereTheyAreWanted) {
  const auto values = read(
      "count = 3\nrate = 0.5\nis_on = true\nname = 'n'\nnames = ['a']\npairs = {k = 'v'}\nway = "
      "'a'\n"
      "table = {inner = 5}");
  EXPECT_EQ(values.count, 3);
  EXPECT_EQ(values.rate, 0.5);
  EXPECT_TRUE(values.is_on);
  EXPECT_EQ(values.name, "n");
  EXPECT_EQ(values.names, std::vector<std::string>{"a"});
  EXPECT_EQ(values.pairs.at("k"), "v");
  EXPECT_EQ(values.inner, 5);
}

TEST(TomlFile, SaysWhereAndWhatAndWhatWasExpected) {
  const auto error = [](const std::string& text) {
    return error_of([&] { read(text); });
  };
  EXPECT_EQ(error("\ncount = 'x'"),
            "f.toml, line 2: count: expected a whole number from 1 to 9, got 'x'");
  EXPECT_EQ(error("count = 10"),
            "f.toml, line 1: count: expected a whole number from 1 to 9, got 10");
  EXPECT_EQ(error("rate = 2.0"), "f.toml, line 1: rate: expected a number from 0 to 1, got 2");
  EXPECT_EQ(error("rate = []"), "f.toml, line 1: rate: expected a number, got a list");
  EXPECT_EQ(error("is_on = 1"), "f.toml, line 1: is_on: expected true or false, got 1");
  EXPECT_EQ(error("name = 1"), "f.toml, line 1: name: expected a text in quotes, got 1");
  EXPECT_EQ(error("names = 'a'"), "f.toml, line 1: names: expected a list of texts, got 'a'");
  EXPECT_EQ(error("pairs = 1"), "f.toml, line 1: pairs: expected a table of texts, got 1");
  EXPECT_EQ(error("way = 'c'"), "f.toml, line 1: way: expected one of a, b, got 'c'");
  EXPECT_EQ(error("[table]\ninner = 'x'"),
            "f.toml, line 2: inner: expected a whole number from 0 to 9, got 'x'");
  EXPECT_EQ(error("table = {inner = 7}"), "f.toml, line 1: table: expected another");
  EXPECT_EQ(error("cuont = 1"), "f.toml, line 1: 'cuont' is no setting (did you mean count?)");
  EXPECT_EQ(error("zzzzzz = 1"),
            "f.toml, line 1: 'zzzzzz' is no setting; there are: count, is_on, name, names, pairs, "
            "rate, table, way");
}

}  // namespace
}  // namespace sullae::testing
