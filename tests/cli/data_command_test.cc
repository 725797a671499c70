// `sullae data` from outside: what is converted comes back, damage is found and named.
#include <algorithm>

#include "data/files.h"
#include "data/images.h"
#include "sullae/data.h"
#include "support/errors.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

using namespace data;

class DataCommand : public Files {
 protected:
  std::filesystem::path write_images(int count) {
    TarWriter tar(path("images.tar"));
    for (int i = 0; i < count; ++i) {
      tar.write((i % 3 == 0 ? "ant/" : "cat/") + std::to_string(i) + ".jpg",
                one_colour_jpeg(8 + static_cast<unsigned>(i), 10, i, 0, 0));
    }
    tar.close();
    return path("images.tar");
  }
  ProgramResult data_command(std::vector<std::string> words) {
    words.insert(words.begin(), {sullae_program(), "data"});
    return run_program(words);
  }
  static std::vector<std::string> find_part_files_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("part-")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }
  static std::vector<Example> all_of(const std::filesystem::path& files) {
    const auto set = open_dataset({files});
    std::vector<Example> examples;
    for (std::size_t i = 0; i < set->size(); ++i) {
      examples.push_back(set->read(i));
      examples.back().features.erase(feature::kFileName);
    }
    return examples;
  }
};

TEST_F(DataCommand, LeavesNothingOfAnEarlierConversion) {
  const auto images = write_images(11);
  const auto output = path("parts");
  ASSERT_EQ(data_command({"convert", images, "--output", output, "--files", "4"}).exit_code, 0);
  const auto refused = data_command({"convert", images, "--output", output, "--files", "2"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error,
                       "has a data set already (part-00000-of-00004.tfrecord): expected another "
                       "folder, or --overwrite"))
      << refused.standard_error;
  EXPECT_EQ(all_of(output), all_of(images));
  const auto result =
      data_command({"convert", images, "--output", output, "--files", "2", "--overwrite"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(all_of(output), all_of(images));
  EXPECT_FALSE(std::filesystem::exists(output / "part-00003-of-00004.tfrecord"));
  const auto onto_itself = data_command({"convert", output, "--output", output, "--to", "tar"});
  EXPECT_EQ(onto_itself.exit_code, 1);
  EXPECT_TRUE(contains(onto_itself.standard_error, "holds what is read: expected another folder"))
      << onto_itself.standard_error;
  EXPECT_EQ(all_of(output), all_of(images));
}

TEST_F(DataCommand, AConversionThatFailsIsNotTakenForAnEarlierOne) {
  const auto output = path("parts");
  for (const char* ranks : {"1", "2"}) {
    ASSERT_EQ(data_command(
                  {"convert", write_images(11), "--output", output, "--files", "4", "--overwrite"})
                  .exit_code,
              0);
    {
      TarWriter tar(path("torn.tar"));
      for (int i = 0; i < 7; ++i)
        tar.write("dog/" + std::to_string(i) + ".jpg", one_colour_jpeg(8, 10, i, 0, 0));
      tar.write("dog/7.jpg", "no image");
      tar.close();
    }
    const auto failed = run_program({sullae_program(), "run", "-np", ranks, sullae_program(),
                                     "data", "convert", path("torn.tar"), "--output", output,
                                     "--files", "4", "--workers", "1", "--overwrite"});
    EXPECT_NE(failed.exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(output / "part-00003-of-00004.tfrecord"));
    EXPECT_EQ(bytes_of(output / "classes.txt"), "dog\n");
    EXPECT_NE(data_command({"inspect", output}).exit_code, 0);
  }
}

TEST_F(DataCommand, ParquetComesBackWhateverTheRanks) {
  std::string table = "id,text,label\n";
  for (int i = 0; i < 97; ++i)
    table +=
        std::to_string(i) + ",review " + std::to_string(i) + (i % 3 == 0 ? ",bad\n" : ",good\n");
  const auto reviews = write("reviews.csv", table);
  const auto images = write_images(11);
  for (const auto& source : {reviews, images}) {
    const auto expected = all_of(source);
    std::string bytes;
    for (const char* ranks : {"1", "3"}) {
      const auto output = path("parquet-of-" + source.stem().string());
      std::filesystem::remove_all(output);
      const auto result =
          run_program({sullae_program(), "run", "-np", ranks, sullae_program(), "data", "convert",
                       source, "--output", output, "--to", "parquet", "--files", "5"});
      ASSERT_EQ(result.exit_code, 0) << result.standard_error;
      EXPECT_EQ(all_of(output), expected);
      std::string all;
      for (const auto& file : find_part_files({output})) all += bytes_of(file);
      EXPECT_TRUE(bytes.empty() || bytes == all);
      bytes = all;
    }
  }
  // Anew, in the same format; and compressed otherwise, by its own means.
  const auto output = path("parquet-of-reviews");
  ASSERT_EQ(data_command({"shard", output, "--output", path("two"), "--files", "2", "--compress"})
                .exit_code,
            0);
  EXPECT_TRUE(std::filesystem::exists(path("two/part-00001-of-00002.parquet")));
  EXPECT_EQ(all_of(path("two")), all_of(reviews));
  const auto seen = data_command({"inspect", path("two")});
  EXPECT_TRUE(contains(seen.standard_output, "samples   97")) << seen.standard_output;
  EXPECT_TRUE(contains(data_command({"verify", path("two")}).standard_output,
                       "97 samples are whole, 0 are damaged"));
}

TEST_F(DataCommand, AFolderWithoutItsSuccessIsReadWhenAskedTo) {
  write("out/part-00000.csv", "good,a\nbad,b\n");
  const auto refused = data_command({"inspect", path("out")});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error, "out: has no _SUCCESS")) << refused.standard_error;
  EXPECT_EQ(data_command({"inspect", path("out"), "--success-file", "no"}).exit_code, 0);
}

TEST_F(DataCommand, TarOutputKnowsItsClasses) {
  const auto output = path("tars");
  ASSERT_EQ(data_command({"convert", write_images(6), "--output", output, "--to", "tar"}).exit_code,
            0);
  EXPECT_EQ(open_dataset({output})->classes(), (std::vector<std::string>{"ant", "cat"}));
}

TEST_F(DataCommand, SkipDamagedLeavesOutImagesThatCannotBeDecoded) {
  {
    TarWriter tar(path("images.tar"));
    tar.write("ant/1.jpg", one_colour_jpeg(64, 64, 1, 2, 3));
    auto torn = one_colour_jpeg(64, 64, 3, 2, 1);
    torn.resize(torn.size() - 200);
    tar.write("ant/2.jpg", torn);
    tar.close();
  }
  const auto result =
      data_command({"convert", path("images.tar"), "--output", path("whole"), "--skip-damaged"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "wrote 1 samples")) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_error, "ant/2.jpg")) << result.standard_error;
}

TEST_F(DataCommand, PicturesOfOtherKindsAreNotIgnoredWithoutAWord) {
  std::filesystem::create_directories(path("folder") / "ant");
  write("folder/ant/1.jpg", one_colour_jpeg(8, 8, 1, 2, 3));
  write("folder/ant/2.png", "png");
  const auto result = data_command({"inspect", path("folder")});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "1 file is no JPEG and left out"))
      << result.standard_error;
}

TEST_F(DataCommand, NorInArchives) {
  TarWriter tar(path("mixed.tar"));
  tar.write("ant/1.jpg", one_colour_jpeg(8, 8, 1, 2, 3));
  tar.write("ant/2.png", "png");
  tar.close();
  const auto result = data_command({"inspect", path("mixed.tar")});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "1 file is no JPEG and left out, such as ant/2.png"))
      << result.standard_error;
}

// Without --skip-damaged, which decodes every image.
TEST_F(DataCommand, ConvertRefusesWhatIsNoImageOrIsCutOff) {
  auto torn = one_colour_jpeg(64, 64, 3, 2, 1);
  torn.resize(torn.size() - 10);
  for (const auto& [content, message] : {std::pair<std::string, std::string>{torn, "it is cut off"},
                                         {"a text", "is no JPEG file, expected a JPEG file"},
                                         {"", "is empty, expected a JPEG file"}}) {
    {
      TarWriter tar(path("images.tar"));
      tar.write("ant/1.jpg", one_colour_jpeg(64, 64, 1, 2, 3));
      tar.write("ant/2.jpg", content);
      tar.close();
    }
    const auto result = data_command({"convert", path("images.tar"), "--output", path("out")});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(contains(result.standard_error, "ant/2.jpg")) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
  }
}

// A number of a row is no label.
TEST_F(DataCommand, TakesSamplesWithoutLabelsWhereThatIsSaid) {
  const auto table = write("un.csv", "id,review\n1,good film\n2,bad film\n");
  const auto refused = data_command({"inspect", table});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.standard_error,
                       "none is a label by its name; say which with "
                       "--label-column, or, to sullae data, --unlabelled"))
      << refused.standard_error;
  const auto output = path("out");
  ASSERT_EQ(data_command({"convert", table, "--output", output, "--unlabelled"}).exit_code, 0);
  const auto seen = data_command({"inspect", output, "--unlabelled"});
  EXPECT_EQ(seen.exit_code, 0) << seen.standard_error;
  EXPECT_TRUE(contains(seen.standard_output, "samples   2")) << seen.standard_output;
  EXPECT_FALSE(contains(seen.standard_output, "label ")) << seen.standard_output;
}

// Where a table's first row is a sample, or has names that are not known.
TEST_F(DataCommand, SaysWhichColumnsItTakesForLabelAndText) {
  const auto table = write("own.csv", "utterance,emotion\na,good\nb,bad\nc,good\n");
  const auto seen = data_command({"inspect", table});
  EXPECT_TRUE(contains(seen.standard_error,
                       "no row of names: the label is column 1, the text "
                       "column 2"))
      << seen.standard_error;
  EXPECT_TRUE(
      contains(seen.standard_error,
               "each of its 4 rows has a label of its own, in column 1: is that the label?"))
      << seen.standard_error;
  const auto named = data_command({"inspect", table, "--label-column", "emotion"});
  EXPECT_TRUE(contains(named.standard_output, "samples   3")) << named.standard_output;
  EXPECT_TRUE(contains(named.standard_output, "classes   2")) << named.standard_output;
}

TEST_F(DataCommand, ConvertsToBothFormatsAndBack) {
  const auto images = write_images(11);
  for (const std::string format : {"tfrecord", "tar"}) {
    const auto output = path("to-" + format);
    const auto result = data_command(
        {"convert", images, "--output", output, "--to", format, "--files", "3", "--workers", "2"});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_TRUE(contains(result.standard_output, "wrote 11 samples to 3 files"))
        << result.standard_output;
    EXPECT_EQ(all_of(output), all_of(images));
    EXPECT_EQ(bytes_of(output / "classes.txt"), "ant\ncat\n");
  }
  const auto compressed = path("compressed");
  ASSERT_EQ(data_command({"convert", path("to-tfrecord"), "--output", compressed, "--files", "1",
                          "--compress"})
                .exit_code,
            0);
  EXPECT_TRUE(std::filesystem::exists(compressed / "part-00000-of-00001.tfrecord.gz"));
  EXPECT_EQ(all_of(compressed), all_of(images));
}

TEST_F(DataCommand, SeveralRanksShareTheWork) {
  const auto images = write_images(23);
  const auto result = run_program({sullae_program(), "run", "-np", "3", sullae_program(), "data",
                                   "convert", images, "--output", path("out"), "--files", "5"});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_output, "wrote 23 samples to 5 files"))
      << result.standard_output;
  EXPECT_EQ(all_of(path("out")), all_of(images));
}

TEST_F(DataCommand, DividesAnewAndShuffles) {
  const auto images = write_images(20);
  ASSERT_EQ(data_command({"convert", images, "--output", path("a"), "--files", "2"}).exit_code, 0);
  ASSERT_EQ(data_command({"shard", path("a"), "--output", path("b"), "--files", "4", "--shuffle"})
                .exit_code,
            0);
  auto before = all_of(path("a"));
  auto after = all_of(path("b"));
  EXPECT_NE(before, after);
  const auto by_bytes = [](const Example& x, const Example& y) {
    return serialize(x) < serialize(y);
  };
  std::ranges::sort(before, by_bytes);
  std::ranges::sort(after, by_bytes);
  EXPECT_EQ(before, after);
}

TEST_F(DataCommand, ShowsWhatThereIs) {
  const auto result = data_command({"inspect", write_images(6)});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  for (const char* part :
       {"samples   6", "8 x 10 to 13 x 10 pixels", "image/encoded", "classes   2", "cat"})
    EXPECT_TRUE(contains(result.standard_output, part)) << part << " in\n"
                                                        << result.standard_output;
  const auto texts = data_command({"inspect", write("a.csv", "1,hello\n2,world\n")});
  EXPECT_TRUE(contains(texts.standard_output, "text")) << texts.standard_output;
}

TEST_F(DataCommand, VerifyingFindsAllDamage) {
  const auto images = write_images(10);
  ASSERT_EQ(data_command({"convert", images, "--output", path("out"), "--files", "1"}).exit_code,
            0);
  EXPECT_EQ(data_command({"verify", path("out")}).exit_code, 0);
  const auto file = path("out") / "part-00000-of-00001.tfrecord";
  std::string bytes = bytes_of(file);
  bytes[30] ^= 1;  // in the first record's data
  write("out/part-00000-of-00001.tfrecord", bytes);
  const auto damaged = data_command({"verify", path("out")});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_TRUE(contains(damaged.standard_output, "9 samples are whole, 1 is damaged"))
      << damaged.standard_output;
  EXPECT_TRUE(contains(damaged.standard_error, "is damaged: its checksum does not fit"))
      << damaged.standard_error;
  // Converting stops at it, and leaves nothing half-written.
  const auto refused =
      data_command({"convert", path("out"), "--output", path("again"), "--files", "1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(find_part_files_in(path("again")).empty());
  const auto skipped = data_command(
      {"convert", path("out"), "--output", path("again"), "--files", "1", "--skip-damaged"});
  EXPECT_EQ(skipped.exit_code, 0);
  EXPECT_TRUE(contains(skipped.standard_output, "left out 1 damaged records"))
      << skipped.standard_output;
}

TEST_F(DataCommand, SaysWhatIsWrong) {
  EXPECT_TRUE(
      contains(data_command({"inspect", "/none"}).standard_error, "/none: there is no such file"));
  EXPECT_NE(data_command({"convert", write_images(1)}).exit_code, 0) << "--output is missing";
  EXPECT_NE(data_command({}).exit_code, 0);
  const auto idx =
      data_command({"convert", path("images.tar"), "--output", "/proc/none", "--files", "1"});
  EXPECT_TRUE(contains(idx.standard_error, "/proc/none: cannot be made")) << idx.standard_error;
}

}  // namespace
}  // namespace sullae::testing
