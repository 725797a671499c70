// Part files, folders, patterns, and data sets made of others.
#include "sullae/data/dataset.h"

#include <sys/resource.h>

#include "data/files.h"
#include "data/images.h"
#include "sullae/data/text.h"
#include "support/errors.h"
#include "support/idx_files.h"

namespace sullae::testing {
namespace {

using namespace data;

class DataFiles : public Files {};

TEST_F(DataFiles, PartFilesAreOneSetInTheOrderOfTheirNames) {
  write("out/part-00001.csv", "b,second\n");
  write("out/part-00000.csv", "a,first\n");
  write("out/part-00002.csv", "a,third\nb,fourth\n");
  write("out/_SUCCESS", "");
  write("out/.part-00000.csv.crc", "crc");
  for (const auto* pattern : {"out", "out/part-*"}) {
    const auto set = open_dataset({path(pattern)});
    ASSERT_EQ(set->size(), 4U);
    EXPECT_EQ(*set->read(1).bytes(feature::kText), "second");
    EXPECT_EQ(*set->read(3).bytes(feature::kText), "fourth");
    EXPECT_EQ(*set->read(3).integer(feature::kTextLabel), 1);
    EXPECT_TRUE(contains(set->place(3), "part-00002.csv, record 1, line 2"));
  }
}

TEST_F(DataFiles, ThereMayBeMoreFilesThanTheSoftLimitOfOpenOnes) {
  constexpr rlim_t kLimit = 64;
  for (rlim_t i = 0; i < 2 * kLimit; ++i)
    write("many/" + std::to_string(1000 + i) + ".csv", "a,x\n");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = kLimit;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(open_dataset({path("many")})->size(), 2 * kLimit);
  ::setrlimit(RLIMIT_NOFILE, &before);
  // In a process of its own: nobody raises a hard limit again.
  const auto open_with_low_limits = [&] {
    const rlimit lowest{.rlim_cur = kLimit, .rlim_max = kLimit};
    ::setrlimit(RLIMIT_NOFILE, &lowest);
    std::fputs(error_of<InputError>([&] { open_dataset({path("many")}); }).c_str(), stderr);
    std::exit(7);
  };
  EXPECT_EXIT(open_with_low_limits(), ::testing::ExitedWithCode(7),
              "cannot be opened: Too many open files; this process may have 64 open");
}

TEST_F(DataFiles, AFolderOfClassesIsRead) {
  write("set/dog/b.jpg", "D");
  write("set/ant/a.JPEG", "A");
  write("set/ant/readme.txt", "x");
  const auto set = open_dataset({path("set")});
  ASSERT_EQ(set->size(), 2U);
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"ant", "dog"}));
  EXPECT_EQ(*set->read(1).integer(feature::kLabel), 1);
  EXPECT_EQ(*set->read(1).bytes(feature::kImage), "D");
  // Of who has looked at it, and what a Mac leaves; cameras begin so, too.
  write("set/_rejected/c.jpg", "C");
  write("set/__MACOSX/x", "x");
  write("set/ant/_DSC0001.jpg", "E");
  const auto again = open_dataset({path("set")});
  EXPECT_EQ(again->size(), 3U);
  EXPECT_EQ(again->classes(), set->classes());
  std::filesystem::create_directory(path("set/empty"));
  EXPECT_TRUE(contains(error_of([&] { open_dataset({path("set")}); }),
                       "set/empty: the folder of a class has no images"));
}

TEST_F(DataFiles, FilesOfPlainTextAreSamples) {
  write("prose/one.txt", "A line\nand another\n");
  write_gzip("prose/two.txt.gz", "more");
  const auto set = open_dataset({path("prose")});
  ASSERT_EQ(set->size(), 2U);
  DamageLog damage(false);
  EXPECT_EQ(read_plain_texts(*set, damage),
            (std::vector<std::string>{"A line\nand another\n", "more"}));
  EXPECT_TRUE(contains(error_of([&] { read_texts(*set, damage); }),
                       "one.txt: is no labelled text: expected the features 'text' and 'label'"));
  // Of whichever name, where the user says so; and a table where there is a tab.
  EXPECT_EQ(open_dataset({write("main.cc", "int\tmain")}, {.format = "text"})->size(), 1U);
  EXPECT_EQ(open_dataset({write("table.txt", "text\tlabel\na\t1\nb\t0\n")})->size(), 2U);
  EXPECT_EQ(*open_dataset({write("empty.txt", "")})->read(0).bytes(feature::kText), "");
}

TEST_F(DataFiles, IdxIsRead) {
  testing::write_idx(directory_.path(), "train", draw_digits(5, 1));
  const auto set = open_dataset({path("train-images-idx3-ubyte")});
  ASSERT_EQ(set->size(), 5U);
  EXPECT_EQ(set->read(4).bytes(feature::kPixels)->size(), 784U);
  EXPECT_EQ(*set->read(0).integer(feature::kRows), 28);
  EXPECT_NE(set->read(0).integer(feature::kLabel), nullptr);
}

TEST_F(DataFiles, SaysWhatItCannotOpen) {
  const auto error = [](const std::filesystem::path& path, DatasetOptions options = {}) {
    return error_of([&] { open_dataset({path}, options); });
  };
  EXPECT_TRUE(contains(error(path("none")), "none: there is no such file or folder"));
  EXPECT_TRUE(contains(error(path("part-*")), "no file matches it"));
  EXPECT_TRUE(contains(error(write("a.bin", "what?")),
                       "a.bin: is of no known format, expected one of arrow, csv"));
  EXPECT_TRUE(contains(error(write("a.bin", ""), {}), "is of no known format"));
  EXPECT_TRUE(contains(error(path("a.bin"), {.format = "orc"}), "format 'orc' is not known"));
  std::filesystem::create_directory(path("empty"));
  EXPECT_TRUE(contains(error(path("empty")), "the folder holds no files of data"));
  write("mixed/a.csv", "1,a\n");
  write("mixed/b.tsv", "a\t1\n");
  EXPECT_TRUE(contains(error(path("mixed")), "is of format tsv, but"));
}

// Counts how often it is asked.
class Numbers final : public Dataset {
 public:
  std::size_t size() const override { return 10; }
  std::string place(std::size_t i) const override { return std::to_string(i); }
  Example read(std::size_t i) const override {
    ++reads;
    Example example;
    example.set("number", static_cast<std::int64_t>(i));
    example.set("ballast", std::string(1000, 'x'));
    return example;
  }
  mutable std::atomic<int> reads = 0;
};

TEST(DatasetDecorators, TheCacheKeepsWhatFits) {
  const auto numbers = std::make_shared<Numbers>();
  const auto cached = cache_in_memory(numbers, 5500);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_EQ(*cached->read(i).integer("number"), static_cast<std::int64_t>(i));
  }
  EXPECT_GT(numbers->reads, 10);
  EXPECT_LT(numbers->reads, 20);
}

TEST(DatasetDecorators, ASubsetHasItsOwnNumbers) {
  const auto some = subset(std::make_shared<Numbers>(), {7, 3});
  EXPECT_EQ(some->size(), 2U);
  EXPECT_EQ(*some->read(1).integer("number"), 3);
  EXPECT_EQ(some->place(0), "7");
}

// Folders as `sullae data convert` writes them: numbers, and the names beside them.
class ConvertedFolders : public DataFiles {
 protected:
  std::filesystem::path write_folder(const std::string& name, const std::string& classes) {
    std::filesystem::create_directory(path(name));
    TFRecordWriter writer(path(name) / "part-00000-of-00001.tfrecord");
    for (const std::int64_t label : {0, 1}) {
      Example example;
      example.set(feature::kText, name);
      example.set(feature::kTextLabel, label);
      writer.write(serialize(example));
    }
    writer.close();
    if (!classes.empty()) write(name + "/classes.txt", classes);
    return path(name);
  }
  // Of each sample, by its number.
  static std::vector<std::string> names_in(const Dataset& set) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < set.size(); ++i)
      names.push_back(set.classes().at(static_cast<std::size_t>(*set.read(i).label())));
    return names;
  }
};

TEST_F(ConvertedFolders, KeepTheirClassesTogether) {
  const auto cats = write_folder("a", "cat\ndog\n");
  const auto birds = write_folder("b", "bird\ncat\n");
  const auto dogs = write_folder("c", "dog\ncat\n");
  using Names = std::vector<std::string>;
  const auto other = open_dataset({cats, birds});
  EXPECT_EQ(other->classes(), (Names{"bird", "cat", "dog"}));
  EXPECT_EQ(names_in(*other), (Names{"cat", "dog", "bird", "cat"}));
  const auto turned = open_dataset({cats, dogs});
  EXPECT_EQ(turned->classes(), (Names{"cat", "dog"}));
  EXPECT_EQ(names_in(*turned), (Names{"cat", "dog", "dog", "cat"}));
  const auto given = open_dataset({cats, birds}, {.classes = {"dog", "cat", "bird"}});
  EXPECT_EQ(names_in(*given), (Names{"cat", "dog", "bird", "cat"}));
}

TEST_F(ConvertedFolders, NumbersWithoutNamesAreRefusedBesideNames) {
  const auto named = write_folder("a", "cat\ndog\n");
  const auto nameless = write_folder("b", "");
  const std::string message = (nameless / "part-00000-of-00001.tfrecord").string() +
                              ": its labels are numbers without names, while those of " +
                              (named / "part-00000-of-00001.tfrecord").string() +
                              " have names: expected a classes.txt beside it";
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({named, nameless}); }), message);
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({nameless, named}); }), message);
  EXPECT_EQ(*open_dataset({nameless})->read(1).label(), 1);
  // Who asks for no labels is not asked for their names.
  EXPECT_EQ(open_dataset({named, nameless}, {.unlabelled = true})->size(), 4U);
}

// Their names are numbers, which do not stand in the order of texts.
TEST_F(DataFiles, IdxFilesOfDifferentClassesKeepTheirLabels) {
  const auto write_labels = [&](const std::string& name, const std::vector<std::uint8_t>& labels) {
    testing::write_idx(directory_.path(), name,
                       {.rows = 1,
                        .columns = 1,
                        .pixels = std::vector<std::uint8_t>(labels.size()),
                        .labels = labels});
    return path(name + "-images-idx3-ubyte");
  };
  const auto set = open_dataset({write_labels("a", {0, 2, 10}), write_labels("b", {2, 1})});
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < set->size(); ++i) labels.push_back(*set->read(i).label());
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 2, 10, 2, 1}));
  EXPECT_EQ(set->classes().at(10), "10");
}

// Numbers are those of the names beside the files, and not of the model that is to learn them.
TEST_F(DataFiles, LabelsAreRenumberedForOtherClasses) {
  TFRecordWriter writer(path("a.tfrecord"));
  for (const std::int64_t label : {0, 1, 0}) {
    Example example;
    example.set(feature::kText, "a");
    example.set(feature::kTextLabel, label);
    writer.write(serialize(example));
  }
  writer.close();
  write("classes.txt", "good\nbad\n");
  const auto set = open_dataset({path("a.tfrecord")}, {.classes = {"bad", "new", "good"}});
  EXPECT_EQ(*set->read(0).label(), 2);
  EXPECT_EQ(*set->read(1).label(), 0);
  EXPECT_EQ(*open_dataset({path("a.tfrecord")})->read(1).label(), 1);
  const auto other = open_dataset({path("a.tfrecord")}, {.classes = {"bad"}});
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { other->read(0); }),
                       ": its class is 'good', expected one of bad"));
}

}  // namespace
}  // namespace sullae::testing
