// Data sets in S3 and HDFS: every format is read as from a disk, and written.
#include "data/columnar/tables.h"
#include "data/format/format.h"
#include "data/images.h"
#include "storage/store.h"
#include "sullae/data.h"
#include "support/errors.h"
#include "support/store_server.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

using namespace data;

class DataInStores : public Tables {
 protected:
  // The same files here and there.
  void put(const std::string& name, const std::string& bytes) {
    write(name, bytes);
    server_.put_file(name, path(name).string());
  }
  void put(const std::string& name) { server_.put_file(name, path(name).string()); }
  // So many cells of 100 KB, as they are, 50 a row group.
  void put_big(const std::string& name, int rows) {
    std::string cells = "[";
    for (int i = 0; i < rows; ++i) {
      cells += i > 0 ? ",\"" : "\"";
      cells += std::string(100'000, static_cast<char>('a' + i % 26)) + '"';
    }
    parquet::WriterProperties::Builder properties;
    properties.compression(parquet::Compression::UNCOMPRESSED)->disable_dictionary();
    write_parquet(name, *make_table({{"x", arrow::binary(), cells + "]"}}), 50, properties.build());
    put(name);
  }
  static std::vector<Example> all_of(const std::filesystem::path& place,
                                     const DatasetOptions& options = {}) {
    const auto set = open_dataset({place}, options);
    std::vector<Example> samples;
    for (std::size_t i = 0; i < set->size(); ++i) samples.push_back(set->read(i));
    return samples;
  }
  void expect_same(const std::string& place, const DatasetOptions& options = {}) {
    const auto expected = all_of(path(place), options);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(all_of(server_.s3(place), options), expected) << place;
    EXPECT_EQ(all_of(server_.webhdfs(place), options), expected) << place;
  }

  const StoreServer& server_ = StoreServer::empty();
};

TEST_F(DataInStores, EveryFormatIsReadAsFromADisk) {
  put("c/part-00000.csv", "label,text\na,one\nb,\"two, three\"\n");
  put("c/part-00001.csv", "");
  put("c/_SUCCESS", "");
  put("c/.part-00000.csv.crc", "crc");
  expect_same("c");
  expect_same("c/part-*");
  expect_same("c/part-00000.csv");
  std::filesystem::create_directory(path("z"));
  write_gzip("z/t.tsv.gz", "text\tlabel\none\t1\ntwo\t2\n");
  put("z/t.tsv.gz");
  expect_same("z/t.tsv.gz");
  TFRecordWriter records(path("r.tfrecord"));
  for (int i = 0; i < 5; ++i) {
    Example example;
    example.set(feature::kText, "text " + std::to_string(i));
    example.set(feature::kTextLabel, i % 2);
    records.write(serialize(example));
  }
  records.close();
  put("r.tfrecord");
  expect_same("r.tfrecord");
  for (const char* name : {"photos/cat/a.jpg", "photos/cat/b.jpg", "photos/dog/c.jpg"})
    put(name, one_colour_jpeg(8, 9, 1, 2, 3));
  expect_same("photos");
  TarWriter tar(path("i.tar"));
  tar.write("cat/a.jpg", one_colour_jpeg(8, 9, 1, 2, 3));
  tar.close();
  put("i.tar");
  expect_same("i.tar");
  put("notes/a.txt", "plain");
  expect_same("notes/*.txt");
  const auto table =
      make_table({{"x", arrow::int64(), "[1, 2, 3]"}, {"y", arrow::utf8(), R"(["a", null, "c"])"}});
  std::filesystem::create_directory(path("p"));
  write_parquet("p/t.parquet", *table, 2);
  put("p/t.parquet");
  expect_same("p/t.parquet");
  write_arrow("t.arrow", *table, 2);
  put("t.arrow");
  expect_same("t.arrow");
}

TEST_F(DataInStores, PartitionsAndPatternsAreFound) {
  for (const char* day : {"2026-11-21", "2026-11-22"}) {
    const std::string folder = std::string("t/date=") + day + "/kind=a%20b";
    std::filesystem::create_directories(path(folder));
    write_parquet(folder + "/part-00000-x.parquet", *make_table({{"x", arrow::int64(), "[1, 2]"}}));
    // WebHDFS's and S3's own names are decoded once.
    server_.put_file("t/date=" + std::string(day) + "/kind=a%2520b/part-00000-x.parquet",
                     path(folder + "/part-00000-x.parquet").string());
  }
  EXPECT_TRUE(contains(error_of([&] { open_dataset({server_.s3("t")}); }),
                       server_.s3("t") + ": has no _SUCCESS"));
  put("t/_SUCCESS", "");
  expect_same("t");
  expect_same("t/date=2026-11-22");
  expect_same("t/date=*/kind=*/part-*");
  EXPECT_EQ(*open_dataset({server_.s3("t")})->read(3).bytes("kind"), "a b");
  EXPECT_TRUE(contains(error_of([&] { open_dataset({server_.webhdfs("t/date=2*/none")}); }),
                       "there is no such file or folder, and no file matches it as a pattern"));
}

TEST_F(DataInStores, APieceThatIsNotReadIsNotFetched) {
  put_big("big.parquet", 200);
  const auto before = server_.bytes_sent();
  const auto set = open_dataset({server_.s3("big.parquet")});
  EXPECT_EQ(set->read(0).bytes("x")->size(), 100'000U);
  const auto sent = server_.bytes_sent() - before;
  EXPECT_GT(sent, 5'000'000);
  EXPECT_LT(sent, 15'000'000);  // of 20 million
}

// It is no damage of the file, of which --skip-damaged would leave rows out.
TEST_F(DataInStores, AStoreThatFailsIsNoDamage) {
  put_big("t.parquet", 60);
  std::string always = "[\"503\"";
  for (int i = 0; i < 60; ++i) always += ", \"503\"";
  DamageLog damage(true);
  // What it is, its start, what it is when it is opened, its first piece; its end, which Arrow
  // reads, does not come.
  server_.fail(R"(["ok", "ok", "ok", "ok", )" + always.substr(1) + "]");
  const auto error = [&] {
    const Variable timeout("SULLAE_STORAGE_TIMEOUT", "2");
    return error_of([&] { open_dataset({server_.s3("t.parquet")}, {.damage = &damage}); });
  }();
  EXPECT_TRUE(contains(error, "SULLAE_STORAGE_TIMEOUT")) << error;
  EXPECT_EQ(damage.count(), 0U);
  server_.fail("[]");
  EXPECT_EQ(open_dataset({server_.s3("t.parquet")}, {.damage = &damage})->size(), 60U);
}

TEST_F(DataInStores, NamesOfClassesThatMayNotBeSeenAreNotTakenForNone) {
  put("t/a.tfrecord", "");
  put("t/classes.txt", "cat\ndog\n");
  server_.fail(R"(["403", "403", "403"])");  // the file, and twice what is beside it
  EXPECT_TRUE(
      contains(error_of<storage::AccessDenied>([&] { classes_beside(server_.s3("t/a.tfrecord")); }),
               "t/classes.txt"));
  server_.fail(R"(["AccessControlException"])");
  EXPECT_TRUE(contains(
      error_of<storage::AccessDenied>([&] { classes_beside(server_.webhdfs("t/a.tfrecord")); }),
      "t/classes.txt: the answer is 403"));
  server_.fail("[]");
  for (const auto& file : {server_.s3("t/a.tfrecord"), server_.webhdfs("t/a.tfrecord")})
    EXPECT_EQ(classes_beside(file), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(classes_beside(server_.s3("none/a.tfrecord")).empty());
}

TEST_F(DataInStores, IsConvertedThereAndBack) {
  put("c/a.csv", "label,text\na,one\nb,two\na,three\n");
  const auto expected = all_of(path("c"));
  for (const char* format : {"tfrecord", "parquet"}) {
    const std::string out = std::string("out-") + format;
    for (const auto& place : {server_.s3(out), server_.webhdfs("h-" + out)}) {
      for (const char* files : {"3", "2"}) {
        const auto result =
            run_program({sullae_program(), "data", "convert", server_.s3("c"), "--output", place,
                         "--to", format, "--files", files, "--overwrite"},
                        server_.environment());
        ASSERT_EQ(result.exit_code, 0) << result.standard_error;
      }
      EXPECT_EQ(all_of(place), expected) << place;
      EXPECT_EQ(find_part_files({place}).size(), 2U);
    }
  }
  const auto onto_itself = run_program(
      {sullae_program(), "data", "convert", server_.s3("c"), "--output", server_.s3("c")},
      server_.environment());
  EXPECT_TRUE(contains(onto_itself.standard_error, "holds what is read: expected another folder"));
  const auto with_slash = run_program(
      {sullae_program(), "data", "convert", server_.s3("c"), "--output", server_.s3("c/")},
      server_.environment());
  EXPECT_TRUE(contains(with_slash.standard_error, "holds what is read: expected another folder"));
}

}  // namespace
}  // namespace sullae::testing
