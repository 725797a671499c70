// Records that are in no file, as samples.
#include "data/format/records_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

class Given final : public Records {
 public:
  explicit Given(std::vector<std::string> records) : records_(std::move(records)) {}
  const std::string& name() const override { return name_; }
  std::size_t size() const override { return records_.size(); }
  std::string read(std::size_t i) const override { return records_[i]; }
  std::string place(std::size_t i) const override { return fmt::format("given, number {}", i); }

 private:
  std::string name_ = "given";
  std::vector<std::string> records_;
};

DatasetPtr open(const std::vector<std::string>& records, const DatasetOptions& options = {}) {
  return open_records(std::make_shared<Given>(records), options);
}
// As messages are read.
constexpr auto kAlone = [](const std::string& format = "auto") {
  return DatasetOptions{.format = format, .unlabelled = true, .stand_alone = true};
};
std::string text_of(const DatasetPtr& set, std::size_t i) {
  return *set->read(i).bytes(feature::kText);
}

TEST(RecordsSet, HasTheFormatThatItsRecordsLookLike) {
  Example example;
  example.set(feature::kText, "good film");
  example.set(feature::kTextLabel, std::int64_t{1});
  EXPECT_EQ(open({serialize(example)})->read(0), example);
  EXPECT_EQ(text_of(open({" \n{\"text\":\n\"good\", \"label\": 1}\n"}), 0), "good");
  EXPECT_EQ(text_of(open({"bad\t1\n", "good\t0"}), 1), "good");
  const auto csv = open({"1,\"bad,\nindeed\"\r\n", "0,good"});
  EXPECT_EQ(text_of(csv, 0), "bad,\nindeed");
  EXPECT_EQ(*csv->read(0).bytes(feature::kClass), "1");
  EXPECT_EQ(csv->classes(), (std::vector<std::string>{"0", "1"}));
}

TEST(RecordsSet, HasTheFormatOfAnyThatSaysSo) {
  EXPECT_EQ(recognise_records(Given({"", "x", "{"})), "jsonl");
  EXPECT_EQ(recognise_records(Given({"a,b", "a\tb"})), "tsv");
  EXPECT_EQ(recognise_records(Given({"\n", "a,b"})), "csv");
}

TEST(RecordsSet, ARecordIsOneRow) {
  const auto set = open({"1,good", "1,good\n0,bad\n"});
  EXPECT_EQ(error_of<DamagedRecord>([&] { set->read(1); }),
            "given, number 1, byte 7: a line end: expected one row, and line ends in quotes");
}

TEST(RecordsSet, TextsThatStandAloneHaveWhatTheyHave) {
  const auto set = open({R"({"title":"one","text":"two"})", R"({"text":"three"})",
                         R"({"title":"four","n":1})", R"({"n":2})", R"({"text":""})"},
                        kAlone());
  EXPECT_EQ(text_of(set, 0), "one two");
  EXPECT_EQ(text_of(set, 1), "three");
  EXPECT_EQ(text_of(set, 2), "four");
  EXPECT_EQ(text_of(set, 4), "");
  EXPECT_EQ(error_of<DamagedRecord>([&] { set->read(3); }),
            "given, number 3, column 'title': is missing");
}

TEST(RecordsSet, ColumnsOfThoseThatStandAloneMayBeMissing) {
  auto options = kAlone();
  options.kept_columns = {"id", "place"};
  options.text_columns = "title,text";
  const auto set = open({R"({"text":"a","id":7})"}, options);
  EXPECT_EQ(text_of(set, 0), "a");
  EXPECT_EQ(*set->read(0).integer("column/id"), 7);
  EXPECT_FALSE(set->read(0).features.contains("column/place"));
  EXPECT_TRUE(contains(error_of<InputError>([&] { open({R"({"id":7})"}, options); }), "'title'"));
}

TEST(RecordsSet, IsRefusedWhereItCannotBe) {
  EXPECT_EQ(error_of<InputError>([] { open({}); }), "given: holds no samples");
  EXPECT_EQ(error_of<InputError>([] { open({"x"}, {.format = "tar"}); }),
            "format 'tar' of messages: expected auto or one of csv, jsonl, tfrecord, tsv");
}

}  // namespace
}  // namespace sullae::testing
