// JSON lines as samples.
#include "data/files.h"
#include "sullae/data.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

class JsonLines : public Files {
 protected:
  static std::vector<Example> all_of(const std::filesystem::path& file,
                                     const DatasetOptions& options = {}) {
    const auto set = open_dataset({file}, options);
    std::vector<Example> samples;
    for (std::size_t i = 0; i < set->size(); ++i) samples.push_back(set->read(i));
    return samples;
  }
};

TEST_F(JsonLines, ValuesBecomeFeatures) {
  const auto file = write(
      "a.jsonl",
      R"({"n": 7, "x": 1, "s": "a\"b", "b": true, "l": [1, 2], "p": {"q": [[0.5], []]}, "z": null})"
      "\n\n"
      R"({"x": 2.5, "l": [], "p": {"q": null}, "w": ["a", ""], "more": 1})"
      "\r\n");
  const auto set = open_dataset({file});
  ASSERT_EQ(set->size(), 2U);
  const auto first = set->read(0).features;
  EXPECT_EQ(first.at("n"), Feature(Integers{7}));
  EXPECT_EQ(first.at("x"), Feature(Reals{1}));  // as others of its column
  EXPECT_EQ(first.at("s"), Feature(Texts{"a\"b"}));
  EXPECT_EQ(first.at("b"), Feature(Integers{1}));
  EXPECT_EQ(first.at("l"), Feature(Integers{1, 2}));
  EXPECT_EQ(first.at("p.q"), Feature(Reals{0.5F}));
  EXPECT_EQ(first.size(), 6U);
  const auto second = set->read(1).features;
  EXPECT_EQ(second.at("x"), Feature(Reals{2.5F}));
  EXPECT_EQ(second.at("l"), Feature(Integers{}));
  EXPECT_EQ(second.at("w"), Feature(Texts{"a", ""}));
  EXPECT_EQ(second.size(), 4U);
}

// The chosen label is the one, also beside a column that is called so.
TEST_F(JsonLines, OneColumnIsTheLabel) {
  const auto file = write("a.jsonl",
                          "{\"x\": 0.5, \"category\": \"dog\", \"label\": 0}\n"
                          "{\"x\": 1.5, \"category\": \"cat\", \"label\": 1}\n");
  const auto set = open_dataset({file}, {.label_column = "category"});
  EXPECT_EQ(set->classes(), (Texts{"cat", "dog"}));
  ASSERT_NE(set->read(0).label(), nullptr);
  EXPECT_EQ(*set->read(0).label(), 1);
  EXPECT_EQ(*set->read(1).label(), 0);
  const auto named = write("label=7/a.jsonl", "{\"x\": 0.5, \"category\": \"dog\"}\n");
  const auto part =
      open_dataset({named.parent_path().parent_path() / "label=7"}, {.label_column = "category"});
  EXPECT_EQ(*part->read(0).label(), 0);
  EXPECT_EQ(part->classes(), Texts{"dog"});
}

// The same samples as those of the same table as CSV.
TEST_F(JsonLines, TextsAndLabelsAreChosenAsInCsv) {
  const auto csv = write("r.csv", "id,text,label\nr7,good one,10\nr8,,2\nr9,\"fine, yes\",10\n");
  const auto lines = write("r.json",
                           "{\"id\":\"r7\",\"text\":\"good one\",\"label\":10}\n"
                           "{\"id\":\"r8\",\"text\":null,\"label\":2}\n"
                           "{\"text\":\"fine, yes\",\"id\":\"r9\",\"label\":10}\n");
  for (const auto& options :
       {DatasetOptions{}, DatasetOptions{.kept_columns = {"id"}},
        DatasetOptions{.text_columns = "id,text"}, DatasetOptions{.unlabelled = true}}) {
    EXPECT_EQ(all_of(lines, options), all_of(csv, options));
    EXPECT_EQ(open_dataset({lines}, options)->classes(), (Texts{"2", "10"}));
  }
  EXPECT_TRUE(
      contains(error_of<InputError>([&] { open_dataset({lines}, {.kept_columns = {"key"}}); }),
               "has no column 'key', expected one of id, text, label, or 1 to 3"));
}

TEST_F(JsonLines, KeysAreWhatTheyAreOrRefused) {
  const auto file = write("r.jsonl",
                          "{\"id\":9223372036854775807,\"text\":\"a\",\"at\":0.5}\n"
                          "{\"id\":9223372036854775808,\"text\":\"b\",\"at\":1}\n"
                          "{\"id\":3,\"text\":\"c\",\"at\":9007199254740993}\n");
  const auto set = open_dataset({file}, {.unlabelled = true, .kept_columns = {"id", "at"}});
  EXPECT_EQ(*set->read(0).integer("column/id"), 9223372036854775807);
  const auto hash = error_of<DamagedRecord>([&] { set->read(1); });
  EXPECT_TRUE(contains(hash, "9223372036854775808 is larger than an int64")) << hash;
  const auto real = error_of<DamagedRecord>([&] { set->read(2); });
  EXPECT_TRUE(contains(real, "has 9007199254740993, in a column of numbers with fractions"))
      << real;
}

// 64 bits hold neither, and a double makes them one.
TEST_F(JsonLines, NumbersOfManyDigitsAreRefusedAsKeys) {
  const auto file = write("r.jsonl",
                          "{\"id\":123456789012345678901234,\"text\":\"a\",\"x\":1e23}\n"
                          "{\"id\":123456789012345678901235,\"text\":\"b\",\"x\":2}\n"
                          "{\"id\":7,\"text\":\"c\",\"x\":123456789012345678901234}\n");
  const auto set = open_dataset({file}, {.unlabelled = true, .kept_columns = {"id"}});
  for (const std::size_t i : {0, 1})
    EXPECT_TRUE(
        contains(error_of<DamagedRecord>([&] { set->read(i); }), "has 12345678901234567890123"));
  const auto real = open_dataset({file}, {.unlabelled = true, .kept_columns = {"x"}});
  EXPECT_EQ(real->read(0).features.at("column/x"), Feature(std::vector{1e23}));
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { real->read(2); }),
                       "has 123456789012345678901234, in a column of numbers with fractions"));
  // What is no key is as near as a number with a fraction comes.
  const auto features = write("f.jsonl", "{\"x\":123456789012345678901234}\n");
  EXPECT_EQ(open_dataset({features})->read(0).features.at("x"),
            Feature(std::vector{1.2345679e23F}));
}

// As Spark writes them: without nulls.
TEST_F(JsonLines, MembersThatRowsLackAreNulls) {
  const auto file =
      write("r.jsonl", "{\"text\":\"X3\"}\n{\"title\":\"T4\",\"text\":\"X4\",\"id\":4}\n");
  const auto set = open_dataset({file}, {.unlabelled = true});
  EXPECT_EQ(*set->read(1).bytes(feature::kText), "T4 X4") << "whatever row is the first";
  write("out/part-0.json", "{\"title\":\"T1\",\"text\":\"X1\",\"id\":1}\n");
  write("out/part-1.json", "{\"text\":\"X2\",\"id\":2}\n");
  const DatasetOptions options{
      .text_columns = "title,text", .unlabelled = true, .kept_columns = {"title", "id"}};
  const auto parts = open_dataset({path("out")}, options);
  EXPECT_EQ(*parts->read(0).bytes(feature::kText), "T1 X1");
  EXPECT_EQ(*parts->read(1).bytes(feature::kText), " X2");
  EXPECT_EQ(*parts->read(1).integer("column/id"), 2);
  EXPECT_FALSE(parts->read(1).features.contains("column/title"));
  auto wrong = options;
  wrong.text_columns = "titel,text";
  EXPECT_TRUE(contains(error_of<InputError>([&] { open_dataset({path("out")}, wrong); }),
                       "has no column 'titel', and no other of the 2 files has"));
}

TEST_F(JsonLines, SaysWhereAndWhatIsWrong) {
  std::string text =
      "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\n[1]\n{\"text\":7,\"label\":\"y\"}\n";
  const auto file = write("r.jsonl", text);
  EXPECT_TRUE(contains(error_of<InputError>([&] { open_dataset({file}); }),
                       file.string() + ", record 3, line 4, offset 38: 'text' is a text here and a "
                                       "number before, or the other way: expected one of both"));
  // Behind what is looked at, it is that row's damage.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "{\"text\":\"a\",\"label\":\"x\"}\n";
  const auto late = write("l.jsonl", many + text.substr(25));
  const auto set = open_dataset({late});
  ASSERT_EQ(set->size(), 1003U);
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { set->read(1000); }),
                       late.string() + ", record 1000, line 1001, offset 25000: is no JSON: "));
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { set->read(1001); }),
                       "is a JSON array, expected an object"));
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { set->read(1002); }),
                       "column 'text': has a JSON number, expected what is in the first rows"));
  EXPECT_EQ(set->classes(), (Texts{"x", "y"}));
}

TEST_F(JsonLines, ALineThatIsNestedWithoutEndIsDamaged) {
  const auto nested = [](std::size_t depth) {
    return "{\"x\":" + std::string(depth, '[') + "1" + std::string(depth, ']') + "}\n";
  };
  const auto file = write("d.jsonl", nested(60) + nested(1'000'000));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->read(0).features.at("x"), Feature(Integers{1}));
  EXPECT_EQ(error_of<DamagedRecord>([&] { set->read(1); }),
            file.string() + ", record 1, line 2, offset 128: is nested more than 64 deep");
}

TEST_F(JsonLines, PartsOfSparkAreRead) {
  write("out/part-00000-x.json", "{\"text\":\"a\",\"label\":\"x\"}\n");
  write_gzip("out/part-00001-x.json.gz", "{\"text\":\"b\",\"label\":\"y\"}\n");
  write("out/part-00002-x.json", "");
  write("out/_SUCCESS", "");
  const auto set = open_dataset({path("out")});
  EXPECT_EQ(set->size(), 2U);
  EXPECT_EQ(*set->read(1).bytes(feature::kText), "b");
  EXPECT_EQ(*set->read(1).label(), 1);
}

}  // namespace
}  // namespace sullae::testing
