// What Spark and Hadoop write: _SUCCESS, partitions, empty parts.
#include <sys/stat.h>

#include "data/columnar/tables.h"
#include "sullae/data.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

constexpr const char* kPart = "part-00000-0f6b1a9c-7b1e-4f55-8a38-1f2cbe6a4a11-c000";

class Parts : public Tables {
 protected:
  // Two days of numbers.
  std::filesystem::path write_days() {
    for (const char* day : {"2026-11-21", "2026-11-22"}) {
      const auto folder = path("table") / (std::string("date=") + day) / "hour=7";
      std::filesystem::create_directories(folder);
      write_parquet(
          (folder / (std::string(kPart) + ".parquet")).lexically_relative(path("")).string(),
          *make_table({{"x", arrow::int64(), "[1, 2]"}}));
    }
    write("table/_SUCCESS", "");
    return path("table");
  }
};

TEST_F(Parts, AFolderOfAJobIsReadWhenTheJobHasEnded) {
  const std::string text = "a,first\nb,second\n";
  write(std::string("out/") + kPart + ".csv", text);
  EXPECT_EQ(
      error_of<InputError>([&] { open_dataset({path("out")}); }),
      path("out").string() +
          ": has no _SUCCESS, which Spark and Hadoop write at the end: the job that writes it "
          "has not ended, or has failed; read it nevertheless with --success-file no");
  EXPECT_EQ(open_dataset({path("out")}, {.success_file = "no"})->size(), 2U);
  write("out/_SUCCESS", "");
  for (const char* when : {"auto", "yes", "no"})
    EXPECT_EQ(open_dataset({path("out")}, {.success_file = when})->size(), 2U);
  // What a running job has not put in place.
  write("hadoop/_temporary/0/part-r-00000", text);
  EXPECT_TRUE(contains(error_of([&] { open_dataset({path("hadoop")}); }), "has no _SUCCESS"));
  // Files of other names, and those that say how many they are.
  write("mine/a.csv", text);
  write("converted/part-00000-of-00001.csv", text);
  for (const char* folder : {"mine", "converted"}) {
    EXPECT_EQ(open_dataset({path(folder)})->size(), 2U);
    EXPECT_TRUE(contains(error_of([&] { open_dataset({path(folder)}, {.success_file = "yes"}); }),
                         "has no _SUCCESS"));
  }
  EXPECT_TRUE(contains(error_of([&] { open_dataset({path("mine")}, {.success_file = "maybe"}); }),
                       "success file 'maybe': expected auto, yes or no"));
}

TEST_F(Parts, FilesThatSayHowManyTheyAreAreAllThere) {
  const std::string text = "a,first\nb,second\n";
  write("t/train-00000-of-00003.csv", text);
  write("t/train-00002-of-00003.csv", text);
  write("t/test-00000-of-00001.csv", text);
  const std::string message =
      path("t/train-00001-of-00003…").string() +
      ": is missing, and 2 of 3 files are there: what writes them has not ended, or has failed; "
      "read them nevertheless with --success-file no";
  for (const char* folder : {"t", "t/"}) {
    for (const char* when : {"auto", "yes"}) {
      write("t/_SUCCESS", "");
      EXPECT_EQ(error_of<InputError>([&] { open_dataset({path(folder)}, {.success_file = when}); }),
                message);
    }
    EXPECT_EQ(open_dataset({path(folder)}, {.success_file = "no"})->size(), 6U);
  }
  // Who names files means those.
  EXPECT_EQ(open_dataset({path("t/train-*")})->size(), 4U);
  write("t/train-00001-of-00003.csv", text);
  EXPECT_EQ(open_dataset({path("t")})->size(), 8U);
  // Each with a hash of its own, in partitions, counted from 1.
  write("u/day=1/x-00001-of-00002-0a1b.csv", text);
  EXPECT_TRUE(contains(error_of([&] { open_dataset({path("u")}); }), "x-00000-of-00002…"));
  write("u/day=1/x-00002-of-00002-2c3d.csv", text);
  EXPECT_EQ(open_dataset({path("u")})->size(), 4U);
}

TEST_F(Parts, APartWithoutRowsIsEmptyAndAllOfThemAreAnError) {
  write("out/_SUCCESS", "");
  write("out/part-00000.csv", "");
  write("out/part-00001.csv", "a,first\nb,second\n");
  write("out/part-00002.csv", "");
  EXPECT_EQ(open_dataset({path("out")})->size(), 2U);
  write("out/part-00001.csv", "");
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({path("out")}); }),
            path("out").string() + ": holds no samples");
}

TEST_F(Parts, FoldersOfPartitionsAreColumns) {
  const auto table = write_days();
  const auto set = open_dataset({table});
  ASSERT_EQ(set->size(), 4U);
  EXPECT_EQ(*set->read(1).integer("x"), 2);
  EXPECT_EQ(*set->read(1).bytes("date"), "2026-11-21");
  EXPECT_EQ(*set->read(2).bytes("date"), "2026-11-22");
  EXPECT_EQ(*set->read(2).integer("hour"), 7);
  // A day alone has its date too, and the whole table's _SUCCESS.
  const auto day = open_dataset({table / "date=2026-11-22"});
  ASSERT_EQ(day->size(), 2U);
  EXPECT_EQ(*day->read(0).bytes("date"), "2026-11-22");
  EXPECT_EQ(open_dataset({table / "date=2026-11-2*"})->size(), 4U);
  EXPECT_EQ(find_part_files({table}).size(), 2U);
  const auto kept = open_dataset({table}, {.kept_columns = {"date", "x"}});
  EXPECT_EQ(*kept->read(3).bytes("column/date"), "2026-11-22");
  EXPECT_EQ(*kept->read(3).integer("column/x"), 2);
}

TEST_F(Parts, PartitionsMayBeNullAndEscaped) {
  write("t/name=a%3Ab%20c/n=07/x.csv", "label,text\np,one\n");
  write("t/name=__HIVE_DEFAULT_PARTITION__/n=8/x.csv", "label,text\nq,two\n");
  const auto set = open_dataset({path("t")}, {.kept_columns = {"name", "n"}});
  EXPECT_EQ(set->read(0).bytes("column/name"), nullptr);
  EXPECT_EQ(*set->read(1).bytes("column/name"), "a:b c");
  EXPECT_EQ(*set->read(1).bytes("column/n"), "07");  // a text, and so is the other's
  EXPECT_EQ(*set->read(0).bytes("column/n"), "8");
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"p", "q"}));
}

TEST_F(Parts, APartitionMayBeTheLabel) {
  write("t/label=10/a.csv", "text\none\ntwo\n");
  write("t/label=2/b.csv", "text\nthree\n");
  const auto set = open_dataset({path("t")});
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(*set->read(0).bytes(feature::kText), "one");
  EXPECT_EQ(*set->read(0).label(), 1);
  EXPECT_EQ(*set->read(2).label(), 0);
  DamageLog damage(false);
  EXPECT_EQ(read_texts(*set, damage).size(), 3U);
  // By a name that says nothing, and over one that the file has.
  write("u/kind=x/a.csv", "text,label\none,7\n");
  write("u/kind=__HIVE_DEFAULT_PARTITION__/a.csv", "text,label\ntwo,8\n");
  const auto kinds = open_dataset({path("u")}, {.label_column = "kind"});
  EXPECT_EQ(*kinds->read(1).bytes(feature::kClass), "x");
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { kinds->read(0); }), "its label is empty"));
}

TEST_F(Parts, APartitionIsTheLabelWhereTheFilesHaveNone) {
  write("t/category=books/a.csv", "text,label\none,x\n");
  write("t/category=films/a.csv", "text,label\ntwo,y\n");
  EXPECT_EQ(open_dataset({path("t")})->classes(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(open_dataset({path("t")}, {.label_column = "category"})->classes(),
            (std::vector<std::string>{"books", "films"}));
}

TEST_F(Parts, LabelsAreCountedOverAllParts) {
  for (int part = 0; part < 4; ++part) {
    std::string rows = "text,label\n";
    for (int i = 0; i < 150; ++i) rows += "t,l" + std::to_string((i + part) % 150) + "\n";
    write("t/" + std::to_string(part) + ".csv", rows);
  }
  EXPECT_EQ(open_dataset({path("t")})->classes().size(), 150U);
  EXPECT_TRUE(contains(error_of<InputError>([&] { open_dataset({path("t/0.csv")}); }),
                       "150 different labels in 150 rows"));
}

TEST_F(Parts, WhatIsNoFileIsPassedOver) {
  write("t/a.csv", "x,one\n");
  std::filesystem::create_symlink("nowhere", path("t/b.csv"));
  ASSERT_EQ(::mkfifo(path("t/c.csv").c_str(), 0600), 0);
  EXPECT_EQ(open_dataset({path("t")})->size(), 1U);
}

TEST_F(Parts, FoldersHaveTheSameColumns) {
  write("t/a=1/x.csv", "p,one\n");
  write("t/b=1/x.csv", "p,one\n");
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({path("t")}); }),
            path("t/b=1/x.csv").string() + ": its folders have the columns [\"b\"], and those of " +
                path("t/a=1/x.csv").string() + " have [\"a\"]: expected the same");
}

}  // namespace
}  // namespace sullae::testing
