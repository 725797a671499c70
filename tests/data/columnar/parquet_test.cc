// Parquet and Arrow files as samples: types, texts and labels, pictures, and what is damaged.
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "data/columnar/tables.h"
#include "sullae/data.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

std::vector<Example> read_all(const Dataset& set) {
  std::vector<Example> samples;
  for (std::size_t i = 0; i < set.size(); ++i) samples.push_back(set.read(i));
  return samples;
}

class Parquet : public Tables {
 protected:
  // Each is of one type, as its only column.
  Feature feature(const std::shared_ptr<arrow::DataType>& type, const std::string& value) {
    const auto file = write_parquet("one.parquet", *make_table({{"x", type, "[" + value + "]"}}));
    return open_dataset({file})->read(0).features.at("x");
  }
  static std::shared_ptr<arrow::Table> reviews() {
    return make_table({{"id", arrow::int64(), "[7, 8, 9, 10, 11]"},
                       {"text", arrow::utf8(), R"(["good one", "bad", null, "fine, yes", "ok"])"},
                       {"label", arrow::utf8(), R"(["pos", "neg", "neg", "pos", "pos"])"}});
  }
};

TEST_F(Parquet, TypesBecomeFeatures) {
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64(),
                           arrow::uint8(), arrow::uint16(), arrow::uint32(), arrow::uint64()})
    EXPECT_EQ(feature(type, "7"), Feature(Integers{7})) << type->ToString();
  EXPECT_EQ(feature(arrow::boolean(), "true"), Feature(Integers{1}));
  for (const auto& type : {arrow::float16(), arrow::float32(), arrow::float64()})
    EXPECT_EQ(feature(type, "0.5"), Feature(Reals{0.5F})) << type->ToString();
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::binary(),
                           arrow::large_binary(), arrow::fixed_size_binary(3)})
    EXPECT_EQ(feature(type, "\"abc\""), Feature(Texts{"abc"})) << type->ToString();
  EXPECT_EQ(feature(arrow::date32(), "20779"), Feature(Texts{"2026-11-22"}));
  EXPECT_EQ(feature(arrow::decimal128(5, 2), "\"123.45\""), Feature(Texts{"123.45"}));
  EXPECT_EQ(feature(arrow::timestamp(arrow::TimeUnit::MICRO), "\"2026-11-22T10:00:00\""),
            Feature(Texts{"2026-11-22 10:00:00.000000"}));
}

TEST_F(Parquet, ListsBecomeTheirValues) {
  EXPECT_EQ(feature(arrow::list(arrow::float32()), "[1, 2.5]"), Feature(Reals{1, 2.5F}));
  EXPECT_EQ(feature(arrow::list(arrow::float32()), "[]"), Feature(Reals{}));
  EXPECT_EQ(feature(arrow::large_list(arrow::utf8()), R"(["a", ""])"), Feature(Texts{"a", ""}));
  EXPECT_EQ(feature(arrow::fixed_size_list(arrow::int32(), 2), "[3, 4]"), Feature(Integers{3, 4}));
  EXPECT_EQ(feature(arrow::list(arrow::list(arrow::int16())), "[[1], [], [2, 3]]"),
            Feature(Integers{1, 2, 3}));
  // Not the first of a column, and with nulls between them.
  const auto file = write_parquet(
      "lists.parquet",
      *make_table({{"x", arrow::list(arrow::list(arrow::int64())),
                    "[[[1, 2]], null, [[3], [4, 5]], [], [[6], [null]], [[7], null]]"}}));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->read(0).features.at("x"), Feature(Integers{1, 2}));
  EXPECT_TRUE(set->read(1).features.empty());
  EXPECT_EQ(set->read(2).features.at("x"), Feature(Integers{3, 4, 5}));
  EXPECT_EQ(set->read(3).features.at("x"), Feature(Integers{}));
  for (const std::size_t i : {4, 5})
    EXPECT_EQ(error_of<DamagedRecord>([&] { set->read(i); }),
              fmt::format("{}, record {}, row group 0, row {}, column 'x': a list holds a null",
                          file.string(), i, i));
}

TEST_F(Parquet, StructuresBecomeTheirMembers) {
  const auto type = arrow::struct_(
      {arrow::field("a", arrow::int32()), arrow::field("b", arrow::list(arrow::float32()))});
  const auto file = write_parquet(
      "s.parquet",
      *make_table({{"s", type, R"([{"a": 1, "b": [0.5]}, null, {"a": null, "b": []}])"},
                   {"last", arrow::int64(), "[1, 2, 3]"}}));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->read(0).features.at("s.a"), Feature(Integers{1}));
  EXPECT_EQ(set->read(0).features.at("s.b"), Feature(Reals{0.5F}));
  EXPECT_EQ(set->read(1).features.size(), 1U);
  EXPECT_EQ(set->read(2).features.at("s.b"), Feature(Reals{}));
  EXPECT_EQ(set->read(2).features.at("last"), Feature(Integers{3}));
}

TEST_F(Parquet, NumbersThatAreTooLargeAreDamaged) {
  const auto file =
      write_parquet("n.parquet", *make_table({{"n", arrow::uint64(), "[1, 9223372036854775808]"}}));
  EXPECT_EQ(error_of<DamagedRecord>([&] { open_dataset({file})->read(1); }),
            file.string() +
                ", record 1, row group 0, row 1, column 'n': 9223372036854775808 is larger than an "
                "int64");
}

TEST_F(Parquet, EveryWayOfWritingIsReadEqual) {
  std::string ids = "[", words = "[", lists = "[";
  constexpr int kRows = 1009;
  for (int i = 0; i < kRows; ++i) {
    const char* const comma = i + 1 < kRows ? ", " : "]";
    ids += fmt::format("{}{}", i, comma);
    words += fmt::format("\"w{}\"{}", i % 7, comma);
    lists +=
        i % 11 == 0 ? fmt::format("null{}", comma) : fmt::format("[{}, {}]{}", i, i / 2.0, comma);
  }
  const auto table = make_table({{"id", arrow::int64(), ids},
                                 {"word", arrow::utf8(), words},
                                 {"list", arrow::list(arrow::float64()), lists}});
  std::vector<Example> expected;
  for (int i = 0; i < kRows; ++i) {
    Example& sample = expected.emplace_back();
    sample.set("id", std::int64_t{i});
    sample.set("word", fmt::format("w{}", i % 7));
    if (i % 11 != 0)
      sample.features["list"] = Reals{static_cast<float>(i), static_cast<float>(i) / 2};
  }
  for (const auto compression : {parquet::Compression::UNCOMPRESSED, parquet::Compression::SNAPPY,
                                 parquet::Compression::GZIP, parquet::Compression::ZSTD}) {
    for (const bool dictionary : {false, true}) {
      for (const bool second : {false, true}) {
        for (const std::int64_t rows : {1, 97, kRows}) {
          parquet::WriterProperties::Builder properties;
          properties.compression(compression)->data_pagesize(512);
          properties.data_page_version(second ? parquet::ParquetDataPageVersion::V2
                                              : parquet::ParquetDataPageVersion::V1);
          if (!dictionary) properties.disable_dictionary();
          const auto file = write_parquet("t.parquet", *table, rows, properties.build());
          EXPECT_EQ(read_all(*open_dataset({file})), expected)
              << dictionary << second << rows << static_cast<int>(compression);
        }
      }
    }
  }
  for (const bool stream : {false, true}) {
    const auto file = write_arrow("t.arrow", *table, 97, stream);
    EXPECT_EQ(read_all(*open_dataset({file})), expected) << stream;
  }
}

TEST_F(Parquet, DictionariesOfArrowAreRead) {
  const auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  const auto words = value_or_abort(arrow::DictionaryArray::FromArrays(
      type, value_or_abort(arrow::json::ArrayFromJSONString(arrow::int8(), "[1, 0, null, 1]")),
      value_or_abort(arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["zero", "one"])"))));
  const auto table = arrow::Table::Make(arrow::schema({arrow::field("word", type)}), {words});
  for (const auto& file : {write_arrow("t.arrow", *table, 3), write_parquet("t.parquet", *table)}) {
    const auto set = open_dataset({file});
    EXPECT_EQ(*set->read(0).bytes("word"), "one");
    EXPECT_EQ(*set->read(1).bytes("word"), "zero");
    EXPECT_EQ(set->read(2).bytes("word"), nullptr);
    EXPECT_EQ(*set->read(3).bytes("word"), "one");
  }
}

// The same samples as those of the same table as CSV.
TEST_F(Parquet, TextsAndLabelsAreChosenAsInCsv) {
  const auto table = write_parquet("r.parquet", *reviews(), 2);
  const auto csv = write("r.csv",
                         "id,text,label\n7,good one,pos\n8,bad,neg\n9,,neg\n10,\"fine, yes\",pos\n"
                         "11,ok,pos\n");
  for (const auto& options :
       {DatasetOptions{}, DatasetOptions{.kept_columns = {"id"}},
        DatasetOptions{.text_columns = "text,id", .label_column = "label"},
        DatasetOptions{.classes = {"pos", "neg"}}, DatasetOptions{.unlabelled = true}}) {
    auto expected = read_all(*open_dataset({csv}, options));
    const auto set = open_dataset({table}, options);
    // A number stays one.
    for (auto& sample : expected) {
      if (const auto* const id = sample.bytes("column/id"))
        sample.set("column/id", std::stoll(*id));
    }
    EXPECT_EQ(read_all(*set), expected);
    EXPECT_EQ(set->classes(), open_dataset({csv}, options)->classes());
  }
}

TEST_F(Parquet, LabelsThatAreNumbersAreNumbersOfClassesWhereTheseAreNamed) {
  const auto file =
      write_parquet("r.parquet", *make_table({{"text", arrow::utf8(), R"(["a", "b", "c"])"},
                                              {"label", arrow::int32(), "[2, 10, 2]"}}));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(*set->read(1).label(), 1);
  write("classes.txt", "no\nmaybe\nyes\n");
  const auto named = open_dataset({file});
  EXPECT_EQ(named->classes(), (std::vector<std::string>{"no", "maybe", "yes"}));
  EXPECT_EQ(*named->read(0).label(), 2);
  EXPECT_EQ(*named->read(0).bytes(feature::kClass), "yes");
  EXPECT_EQ(
      error_of<DamagedRecord>([&] { named->read(1); }),
      file.string() +
          ", record 1, row group 0, row 1: its label is 10, expected 0 to 2, as classes.txt has");
}

TEST_F(Parquet, ALabelThatIsNullIsDamagedUnlessNoneIsWanted) {
  const auto file =
      write_parquet("r.parquet", *make_table({{"text", arrow::utf8(), R"(["a", "b"])"},
                                              {"label", arrow::utf8(), R"(["x", null])"}}));
  EXPECT_EQ(error_of<DamagedRecord>([&] { open_dataset({file})->read(1); }),
            file.string() + ", record 1, row group 0, row 1: its label is empty");
  EXPECT_EQ(open_dataset({file}, {.unlabelled = true})->read(1).label(), nullptr);
}

TEST_F(Parquet, TextsThatAreTakenForLabelsAreRefused) {
  std::string texts = "[", labels = "[";
  for (int i = 0; i < 150; ++i) {
    texts += fmt::format("\"t{}\"{}", i, i < 149 ? ", " : "]");
    labels += fmt::format("\"l{}\"{}", i, i < 149 ? ", " : "]");
  }
  const auto file = write_parquet(
      "r.parquet", *make_table({{"text", arrow::utf8(), texts}, {"label", arrow::utf8(), labels}}));
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({file}); }),
            file.string() +
                ": 150 different labels in 150 rows, such as 'l0': expected classes; say which "
                "column is the label with --label-column");
}

TEST_F(Parquet, ALabelIsOneValue) {
  const auto file = write_parquet(
      "r.parquet", *make_table({{"text", arrow::utf8(), R"(["a", "b"])"},
                                {"labels", arrow::list(arrow::int32()), "[[3, 7], []]"}}));
  EXPECT_EQ(
      error_of<InputError>([&] { open_dataset({file}); }),
      file.string() +
          ": its column 'labels' is of type list<element: int32>, expected one label a sample; "
          "say which column is the label with --label-column");
}

TEST_F(Parquet, ALabelThatIsDamagedHidesNoOther) {
  const auto file = write_parquet(
      "r.parquet", *make_table({{"text", arrow::utf8(), R"(["a", "b", "c"])"},
                                {"label", arrow::uint64(), "[1, 9223372036854775808, 2]"}}));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(*set->read(2).label(), 1);
}

TEST_F(Parquet, PicturesAreKnownByTheirUsualNames) {
  const auto image =
      arrow::struct_({arrow::field("bytes", arrow::binary()), arrow::field("path", arrow::utf8())});
  const auto file = write_parquet(
      "i.parquet", *make_table({{"image", image, R"([{"bytes": "JPEG", "path": "cat.jpg"}])"},
                                {"label", arrow::int64(), "[1]"}}));
  write("classes.txt", "dog\ncat\n");
  const Example sample = open_dataset({file})->read(0);
  EXPECT_EQ(*sample.bytes(feature::kImage), "JPEG");
  EXPECT_EQ(*sample.bytes(feature::kFileName), "cat.jpg");
  EXPECT_EQ(*sample.bytes(feature::kClass), "cat");
  EXPECT_EQ(*sample.integer(feature::kLabel), 1);
}

// As pandas writes whole numbers some of which are missing.
TEST_F(Parquet, KeysAmongRealsAreWhatTheyAre) {
  const auto file = write_parquet(
      "r.parquet", *make_table({{"id", arrow::float64(), "[7, 0.1, 123456789]"},
                                {"of", arrow::list(arrow::float64()), "[[0.1, 3], [], [2]]"},
                                {"text", arrow::utf8(), R"(["a", "b", "c"])"}}));
  const auto set = open_dataset({file}, {.unlabelled = true, .kept_columns = {"id", "of"}});
  EXPECT_EQ(set->read(0).features.at("column/of"), Feature(std::vector<double>{0.1, 3}));
  EXPECT_EQ(set->read(1).features.at("column/id"), Feature(std::vector<double>{0.1}));
  EXPECT_EQ(set->read(2).features.at("column/id"), Feature(std::vector<double>{123456789}));
  EXPECT_EQ(set->feature_types(),
            (std::vector<FeatureType>{
                {.name = "column/id", .kind = FeatureType::Kind::real64},
                {.name = "column/of", .kind = FeatureType::Kind::real64, .dimensions = 1}}));
  EXPECT_TRUE(
      contains(error_of<InputError>([&] { serialize(set->read(2)); }),
               "123456789 is in a column of doubles, which tf.train.Example has as float32"));
  // As an input they are what models take.
  const auto numbers = write_parquet("n.parquet", *make_table({{"x", arrow::float64(), "[0.1]"}}));
  EXPECT_EQ(open_dataset({numbers}, {.kept_columns = {"x"}})->read(0).features.at("x"),
            Feature(std::vector<float>{0.1F}));
}

TEST_F(Parquet, NumbersThatAreTooLargeAreDamage) {
  const auto file =
      write_parquet("d.parquet", *make_table({{"x", arrow::float64(), "[0.5, 1e300, -3.4e38]"}}));
  const auto set = open_dataset({file});
  EXPECT_EQ(set->read(0).features.at("x"), Feature(std::vector<float>{0.5F}));
  EXPECT_TRUE(
      contains(error_of<DamagedRecord>([&] { set->read(1); }), "1e+300 is larger than a float32"));
  EXPECT_EQ(set->read(2).features.at("x"), Feature(std::vector<float>{-3.4e38F}));
}

TEST_F(Parquet, SaysWhichColumnsItHas) {
  const auto file = write_parquet("r.parquet", *reviews());
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({file}, {.label_column = "stars"}); }),
            file.string() + ": has no column 'stars', expected one of id, text, label, or 1 to 3");
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({file}, {.kept_columns = {"key"}}); }),
            file.string() + ": has no column 'key', expected one of id, text, label, or 1 to 3");
  const auto map = arrow::map(arrow::utf8(), arrow::int32());
  const auto maps = write_parquet(
      "m.parquet", *make_table({{"m", map, R"([[["a", 1]]])"}, {"x", arrow::int64(), "[1]"}}));
  EXPECT_EQ(open_dataset({maps})->read(0).features.size(), 1U);
  EXPECT_EQ(error_of<InputError>([&] { open_dataset({maps}, {.kept_columns = {"m"}}); }),
            maps.string() +
                ": its column 'm' is of type map<string, int32 ('m')>, expected numbers, texts, or "
                "lists of "
                "them");
  const auto twice = write_parquet(
      "d.parquet", *make_table({{"x", arrow::int64(), "[1]"}, {"x", arrow::int64(), "[2]"}}));
  EXPECT_TRUE(
      contains(error_of<InputError>([&] { open_dataset({twice}); }), "two columns are called 'x'"));
}

TEST_F(Parquet, AFileThatIsCutOffIsRefusedOrLeftOut) {
  const auto file = write_parquet("whole.parquet", *reviews());
  const std::string bytes = bytes_of(file);
  for (const std::size_t size :
       {std::size_t{4}, std::size_t{11}, bytes.size() / 2, bytes.size() - 1}) {
    const auto torn = write("torn.parquet", bytes.substr(0, size));
    EXPECT_TRUE(error_of<DamagedRecord>([&] {
                  open_dataset({torn});
                }).starts_with(torn.string() + ": is no Parquet file, or is cut off: "))
        << size;
    DamageLog damage(true);
    EXPECT_EQ(open_dataset({file, torn}, {.damage = &damage})->size(), 5U);
    EXPECT_EQ(damage.count(), 1U);
  }
  const auto arrow = write_arrow("whole.arrow", *reviews(), 2);
  const auto torn = write("torn.arrow", bytes_of(arrow).substr(0, 300));
  EXPECT_TRUE(error_of<DamagedRecord>([&] {
                open_dataset({torn});
              }).starts_with(torn.string() + ": is no Arrow file, or is cut off: "));
}

TEST_F(Parquet, ADamagedPageIsDamageOfItsRowGroupAlone) {
  parquet::WriterProperties::Builder properties;
  properties.enable_page_checksum()
      ->compression(parquet::Compression::UNCOMPRESSED)
      ->disable_dictionary();
  const auto file = write_parquet("r.parquet", *reviews(), 2, properties.build());
  std::string bytes = bytes_of(file);
  const auto at = bytes.find("fine, yes");  // of row 3, in row group 1
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'w';
  const auto damaged = write("d.parquet", bytes);
  const auto set = open_dataset({damaged}, {.unlabelled = true});
  EXPECT_EQ(*set->read(0).bytes(feature::kText), "good one");
  EXPECT_EQ(*set->read(4).bytes(feature::kText), "ok");
  for (const std::size_t i : {2, 3}) {
    const auto error = error_of<DamagedRecord>([&] { set->read(i); });
    EXPECT_TRUE(error.starts_with(fmt::format(
        "{}, record {}, row group 1, row {}: cannot be read: ", damaged.string(), i, i - 2)))
        << error;
    EXPECT_TRUE(contains(error, "CRC")) << error;
  }
}

TEST_F(Parquet, ThreadsReadTheSameInAnyOrderWithLittleMemory) {
  const auto file = write_parquet("r.parquet", *reviews(), 1);
  const auto set = open_dataset({file}, {.decoded_bytes = 1});
  const auto expected = read_all(*set);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(thread, 0, 0);
      for (int n = 0; n < 300; ++n) {
        const auto i = static_cast<std::size_t>(random.below(set->size()));
        if (set->read(i) != expected[i]) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Parquet, AFolderOfPartsIsOneSetAlsoWithEmptyOnes) {
  const auto empty = make_table({{"id", arrow::int64(), "[]"},
                                 {"text", arrow::utf8(), "[]"},
                                 {"label", arrow::utf8(), "[]"}});
  std::filesystem::create_directory(path("set"));
  write_parquet("set/part-00000.snappy.parquet", *empty);
  write_parquet("set/part-00001.snappy.parquet", *reviews());
  write_parquet("set/part-00002.snappy.parquet", *reviews(), 2);
  write("set/_SUCCESS", "");
  write("set/.part-00000.snappy.parquet.crc", "crc");
  const auto set = open_dataset({path("set")});
  EXPECT_EQ(set->size(), 10U);
  EXPECT_EQ(set->read(6), set->read(1));
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"neg", "pos"}));
}

}  // namespace
}  // namespace sullae::testing
