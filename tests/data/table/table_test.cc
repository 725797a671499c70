// CSV and TSV: quoting as in RFC 4180, columns, and what is said of rows that are not right.
#include "data/files.h"
#include "data/table/rows.h"
#include "sullae/data/text.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

class Table : public Files {
 protected:
  std::vector<LabelledText> read(const std::string& name, const std::string& content,
                                 DatasetOptions options = {}) {
    DamageLog damage(/*skip=*/false);
    return read_texts(*open_dataset({write(name, content)}, options), damage);
  }
  std::string error(const std::string& name, const std::string& content,
                    DatasetOptions options = {}) {
    return error_of([&] { read(name, content, options); });
  }
};

TEST_F(Table, CsvIsQuotedAsRfc4180Says) {
  const auto rows = read("a.csv",
                         "\"3\",\"a \"\"quoted\"\" word\",\"two\nlines, one field\"\r\n"
                         "1,plain,\n"
                         "\n"
                         "3,\"\",\"\"\"\"");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].text, "a \"quoted\" word two\nlines, one field");
  EXPECT_EQ(rows[0].label, 1);  // of the classes 1 and 3
  EXPECT_EQ(rows[1].text, "plain ");
  EXPECT_EQ(rows[2].text, " \"");
}

TEST_F(Table, TsvTakesQuotesAsTheyAre) {
  const auto rows =
      read("r.txt", "id\tdocument\tlabel\n1\t참 좋다 \"정말\"\t1\n2\t\t0\r\n3\t\"bad\t0");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].text, "참 좋다 \"정말\"");
  EXPECT_EQ(rows[0].label, 1);
  EXPECT_EQ(rows[1].text, "");
  EXPECT_EQ(rows[2].text, "\"bad");
  EXPECT_EQ(read("q.tsv", "\"a\tb\"\tx\n", {.quotes = "yes"})[0].text, "a\tb");
}

TEST_F(Table, ColumnsAreFoundOrNamed) {
  EXPECT_EQ(read("a.tsv", "text one\tgood\ntext two\tbad\n")[0].label, 1);  // bad, good
  EXPECT_EQ(read("a.csv", "review,stars\nnice,5\n", {.label_column = "stars"})[0].text, "nice");
  // Sets call these columns many things; what is no text by its name is the label where it is
  // alone.
  for (const char* header : {"review,sentiment", "Review,Polarity", "tweet,y", "comment,is_spam"}) {
    const auto guessed = read("a.csv", std::string(header) + "\nnice,5\nbad,1\n");
    EXPECT_EQ(guessed[0].text, "nice") << header;
    EXPECT_EQ(guessed[0].label, 1) << header;
  }
  EXPECT_EQ(read("a.csv", "x,nice,5\n", {.text_columns = "2", .label_column = "3"})[0].text,
            "nice");
  EXPECT_EQ(read("a.csv", "title,class,description\nt,1,d\n")[0].text, "t d");
  EXPECT_EQ(read("a.csv", "label,text\n1,a\n", {.header = "no"}).size(), 2U);
  EXPECT_TRUE(contains(error("a.csv", "label,text\n1,a\n", {.label_column = "stars"}),
                       "has no column 'stars', expected one of label, text, or 1 to 2"));
  EXPECT_TRUE(contains(error("a.csv", "1,a\n", {.text_columns = "3"}), "expected 1 to 2"));
}

TEST_F(Table, MayLackLabelsAndKeepsColumns) {
  const auto first_of = [&](const std::string& content, DatasetOptions options) {
    options.unlabelled = true;
    return open_dataset({write("u.csv", content)}, options)->read(0);
  };
  auto example = first_of("id,text\n7,nice\n", {.kept_columns = {"id"}});
  EXPECT_EQ(*example.bytes("column/id"), "7");
  EXPECT_EQ(*example.bytes(feature::kText), "nice");
  EXPECT_EQ(example.bytes(feature::kClass), nullptr);
  EXPECT_EQ(*first_of("just words\n", {}).bytes(feature::kText), "just words");
  // One that is there is read, and may be empty.
  EXPECT_EQ(*first_of("text,label\nnice,5\n", {}).bytes(feature::kClass), "5");
  EXPECT_EQ(first_of("text,label\nnice,\n", {}).bytes(feature::kClass), nullptr);
  EXPECT_EQ(*first_of("5,nice\n", {.text_columns = "2"}).bytes(feature::kText), "nice");
  EXPECT_TRUE(contains(error_of([&] { first_of("5,nice\n", {}); }),
                       "has 2 columns without names: say which are the text with --text-columns"));
}

TEST_F(Table, LabelsThatAreNumbersAreOrderedAsNumbers) {
  const auto set = open_dataset({write("a.csv", "10,a\n9,b\n-1,c\n")});
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"-1", "9", "10"}));
  // The test set takes the training set's classes.
  const auto test = open_dataset({write("b.csv", "10,a\n11,b\n")}, {.classes = set->classes()});
  EXPECT_EQ(*test->read(0).integer(feature::kTextLabel), 2);
  EXPECT_TRUE(
      contains(error_of([&] { test->read(1); }),
               "b.csv, record 1, line 2, offset 5: its class is '11', expected one of -1, 9, 10"));
}

TEST_F(Table, SaysWhereAndWhatIsWrong) {
  EXPECT_TRUE(contains(error("a.csv", "1,a\n2,b \"c\" d\n"),
                       "a.csv, record 1, line 2, offset 4, byte 5: a bare quote"));
  EXPECT_TRUE(contains(error("a.csv", "1,a\n2,\"b\" c\n"), "after the closing quote"));
  EXPECT_TRUE(
      contains(error("a.csv", "1,a\n2,\"b\n3,c\n"),
               "record 1, line 2, offset 4: is truncated: the quote opened at line 2, byte 6 "
               "is not closed"));
  EXPECT_TRUE(contains(error("a.csv", "1,a\n2\n"), "line 2, offset 4: has 1 column, expected 2"));
  EXPECT_TRUE(contains(error("a.csv", "1,a\n2,b,c\n"), "has 3 columns, expected 2"));
  EXPECT_TRUE(contains(error("a.csv", "1,a\n,b\n"), "its label is empty"));
  EXPECT_TRUE(contains(error("a.tsv", "a\t1\nb\xc0\xaf\t1\n"),
                       "line 2, offset 4: byte 2 (0xc0) is not UTF-8"));
  EXPECT_TRUE(contains(error("a.csv", ""), "has no rows"));
  EXPECT_TRUE(contains(error("a.csv", "abc\n"), "has one column, expected a label and a text"));
  EXPECT_TRUE(contains(error("a.csv", "review,one,two\na,1,2\n"),
                       "has columns review, one, two: none is a label by its name; say which with "
                       "--label-column"));
  std::string many = "text,label\n";
  for (int i = 0; i < 300; ++i) many += "x," + std::to_string(i) + "\n";
  EXPECT_TRUE(contains(error("a.csv", many), "300 different labels in 300 rows, such as '0'"));
}

TEST_F(Table, DamagedRowsAreSkippedAndCountedWhenAsked) {
  DamageLog damage(/*skip=*/true);
  const auto set =
      open_dataset({write("a.csv", "1,a\n2,b \"c\" d\n2\n1,ok\n2,\"open\n")}, {.damage = &damage});
  EXPECT_EQ(read_texts(*set, damage).size(), 2U);
  EXPECT_EQ(damage.count(), 3U);
}

// A row index must find the same rows wherever the pieces that it reads end, and a quote that is
// closed and opened again within a field is one quote.
TEST(Rows, SplitAsRfc4180Says) {
  const TableStyle csv;
  EXPECT_EQ(split_row("", csv), std::vector<std::string>{""});
  EXPECT_EQ(split_row(",", csv), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(split_row("\"a\"\"b\",c", csv), (std::vector<std::string>{"a\"b", "c"}));
  EXPECT_TRUE(
      contains(error_of([&] { split_row("\"a", csv); }), "byte 3: the quoted field is not closed"));
}

// Spreadsheets put a mark for UTF-8 in front.
TEST_F(Table, AByteOrderMarkIsNoPartOfTheFirstColumn) {
  const std::string mark = "\xef\xbb\xbf";
  const auto rows = read("a.csv", mark + "stars,words\n5,good\n1,bad\n",
                         {.text_columns = "words", .label_column = "stars"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].text, "bad");
  EXPECT_EQ(read("b.csv", mark + "\"1\",\"quoted, from the first byte\"\n")[0].text,
            "quoted, from the first byte");
  EXPECT_EQ(read("c.csv", "1,a" + mark + "b\n")[0].text, "a" + mark + "b");
}

}  // namespace
}  // namespace sullae::testing
