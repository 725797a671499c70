// Tar archives: layouts, long names, and damage.
#include "sullae/data/tar.h"

#include <fstream>
#include <set>

#include "data/files.h"
#include "data/images.h"
#include "sullae/data/dataset.h"
#include "support/errors.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

using namespace data;

class Tar : public Files {
 protected:
  std::filesystem::path write_tar(const std::string& name,
                                  const std::vector<std::pair<std::string, std::string>>& files) {
    TarWriter writer(path(name));
    for (const auto& [member, content] : files) writer.write(member, content);
    writer.close();
    return path(name);
  }
};

TEST_F(Tar, FoldersAreClasses) {
  const auto set = open_dataset({write_tar("a.tar", {{"train/cat/2.jpg", "C"},
                                                     {"train/ant/1.jpg", "A"},
                                                     {"train/cat/._3.jpg", "junk of macOS"},
                                                     {"train/notes.md", "x"}})});
  ASSERT_EQ(set->size(), 2U);
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"ant", "cat"}));
  const Example first = set->read(0);
  EXPECT_EQ(*first.bytes(feature::kImage), "C");
  EXPECT_EQ(*first.integer(feature::kLabel), 1);
  EXPECT_EQ(*first.bytes(feature::kFileName), "2.jpg");
  EXPECT_TRUE(contains(set->place(1), "a.tar, record 1 (train/ant/1.jpg), offset 1536"))
      << set->place(1);
}

TEST_F(Tar, WebDatasetSamplesAreFilesWithOneKey) {
  const auto set = open_dataset({write_tar("a.tar", {{"0001.jpg", "J"},
                                                     {"0001.cls", "7\n"},
                                                     {"0001.json", "{}"},
                                                     {"0002.cls", "0"},
                                                     {"0002.jpeg", "K"}})});
  ASSERT_EQ(set->size(), 2U);
  EXPECT_EQ(*set->read(0).integer(feature::kLabel), 7);
  EXPECT_EQ(*set->read(1).bytes(feature::kImage), "K");
  EXPECT_TRUE(set->classes().empty());
  const auto bad = open_dataset({write_tar("b.tar", {{"1.jpg", "J"}, {"1.cls", "cat"}})});
  EXPECT_TRUE(
      contains(error_of([&] { bad->read(0); }),
               "b.tar, record 0 (1.jpg), offset 512: its label is 'cat', expected a number"));
}

// As tar writes a folder in which files have several names (cp -al, rsync --link-dest).
TEST_F(Tar, FilesWithSeveralNamesAreSamplesEach) {
  const std::string folder(200, 'f');  // whose names need headers of their own
  for (const char* format : {"gnu", "pax", "ustar"}) {
    const auto root = path(format);
    const auto in = root / "train" / (std::string(format) == "ustar" ? "cat" : folder);
    std::filesystem::create_directories(in);
    std::filesystem::create_directories(root / "train" / "dog");
    std::ofstream(in / "1.jpg") << "first";
    std::ofstream(root / "train" / "dog" / "2.jpg") << "second";
    std::filesystem::create_hard_link(in / "1.jpg", root / "train" / "dog" / "3.jpg");
    std::filesystem::create_symlink("2.jpg", root / "train" / "dog" / "4.jpg");
    const auto archive = path(std::string(format) + ".tar");
    ASSERT_EQ(run_program({"tar", "--sort=name", std::string("--format=") + format, "-C", root,
                           "-cf", archive, "train"})
                  .exit_code,
              0);
    const auto set = open_dataset({archive});
    ASSERT_EQ(set->size(), 3U) << format;
    std::multiset<std::string> images;
    for (std::size_t i = 0; i < 3; ++i) images.emplace(*set->read(i).bytes(feature::kImage));
    EXPECT_EQ(images, (std::multiset<std::string>{"first", "first", "second"})) << format;
  }
}

// As in archives of other programs: of cats and dogs, or of cameras.
TEST_F(Tar, NumbersBehindDotsAreOfTheName) {
  const auto set = open_dataset({write_tar("a.tar", {{"train/cat.0.jpg", "C"},
                                                     {"train/cat.1.jpg", "D"},
                                                     {"train/IMG.2020.01.jpg", "E"},
                                                     {"train/x.7.jpg", "F"},
                                                     {"train/x.7.cls", "3"},
                                                     {"train/x.8.cls", "4"},
                                                     {"train/x.8.jpg", "G"}})});
  ASSERT_EQ(set->size(), 5U);
  EXPECT_EQ(*set->read(1).bytes(feature::kImage), "D");
  EXPECT_EQ(*set->read(2).bytes(feature::kFileName), "IMG.2020.01.jpg");
  EXPECT_EQ(*set->read(3).integer(feature::kLabel), 3);
  EXPECT_EQ(*set->read(4).bytes(feature::kImage), "G");
  EXPECT_EQ(*set->read(4).integer(feature::kLabel), 4);
}

TEST_F(Tar, ASampleHasOneImage) {
  const auto set = open_dataset({write_tar("a.tar", {{"1.left.jpg", "L"},
                                                     {"1.jpg", "J"},
                                                     {"2.left.jpg", "L"},
                                                     {"2.cls", "0"},
                                                     {"3.left.jpg", "L"},
                                                     {"3.right.jpg", "R"}})});
  ASSERT_EQ(set->size(), 3U);
  EXPECT_EQ(*set->read(0).bytes(feature::kImage), "J");
  EXPECT_EQ(*set->read(1).bytes(feature::kImage), "L");
  EXPECT_TRUE(contains(error_of<DamagedRecord>([&] { set->read(2); }),
                       "record 2 (3.left.jpg), offset 4608: '3.left.jpg' and '3.right.jpg' are "
                       "images of one sample, expected one"))
      << error_of<DamagedRecord>([&] { set->read(2); });
}

TEST_F(Tar, NamesBeforeAnUnderscoreAreClasses) {
  const auto set =
      open_dataset({write_tar("a.tar", {{"n02_dog.JPEG", "D"}, {"n01_tench.JPEG", "T"}})});
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"n01", "n02"}));
  EXPECT_EQ(*set->read(0).integer(feature::kLabel), 1);
}

TEST_F(Tar, ExamplesComeBackFromTheWebDatasetLayout) {
  Example example;
  example.set(feature::kImage, "jpeg");
  example.set(feature::kLabel, 3);
  example.set(feature::kClass, "cat");
  TarWriter writer(path("a.tar"));
  writer.write("key", example);
  Example other;
  other.features["box"] = std::vector<float>{1, 2};
  EXPECT_TRUE(
      contains(error_of([&] { writer.write("k", other); }), "the feature 'box' has no place"));
  writer.close();
  Example read = open_dataset({path("a.tar")})->read(0);
  read.features.erase(feature::kFileName);
  EXPECT_EQ(read, example);
}

TEST_F(Tar, OtherProgramsWriteWhatIsRead) {
  const std::string deep =
      std::string(80, 'd') + '/' + std::string(60, 'e');  // needs more than the name's field
  write(deep + "/cat/x.jpg", "content");
  for (const std::string format : {"ustar", "gnu", "pax"}) {
    const auto made = run_program({"tar", "-C", directory_.path().string(), "--format=" + format,
                                   "-cf", path(format + ".tar"), deep});
    ASSERT_EQ(made.exit_code, 0) << made.standard_error;
    const auto set = open_dataset({path(format + ".tar")});
    ASSERT_EQ(set->size(), 1U) << format;
    EXPECT_EQ(*set->read(0).bytes(feature::kImage), "content");
    EXPECT_TRUE(contains(set->place(0), deep)) << format;
  }
}

TEST_F(Tar, OtherProgramsReadWhatIsWritten) {
  const std::string name = std::string(150, 'n') + "/file.jpg";
  write_tar("a.tar", {{name, std::string(1000, 'x')}, {"empty.txt", ""}});
  const auto read = run_program({"tar", "-tvf", path("a.tar")});
  EXPECT_EQ(read.exit_code, 0) << read.standard_error;
  EXPECT_TRUE(contains(read.standard_output, name)) << read.standard_output;
}

TEST_F(Tar, CompressedOnesAreRead) {
  EXPECT_EQ(open_dataset({write_tar("a.tar.gz", {{"c/1.jpg", "A"}, {"c/2.jpg", "B"}})})->size(),
            2U);
}

TEST_F(Tar, DamageIsFoundWithItsPlace) {
  const auto file = write_tar("a.tar", {{"c/1.jpg", std::string(700, 'a')}, {"c/2.jpg", "b"}});
  const std::string whole = bytes_of(file);
  const auto error = [&](const std::string& bytes) {
    return error_of([&] { open_dataset({write("a.tar", bytes)}); });
  };
  EXPECT_TRUE(contains(error(whole.substr(0, 600)),
                       "a.tar, member 0, offset 0: is truncated: 700 bytes expected, 88 are left"));
  EXPECT_TRUE(
      contains(error(whole.substr(0, 1600)), "member 1, offset 1536: is truncated: 64 bytes"));
  std::string flipped = whole;
  flipped[1536 + 3] ^= 1;
  EXPECT_TRUE(contains(error(flipped), "member 1, offset 1536: is no tar header"));
  DamageLog damage(/*skip=*/true);
  EXPECT_EQ(open_dataset({path("a.tar")}, {.damage = &damage})->size(), 1U);
  EXPECT_EQ(damage.count(), 1U);
  EXPECT_TRUE(contains(error(""), "is of no known format") || contains(error(""), "no"));
}

}  // namespace
}  // namespace sullae::testing
