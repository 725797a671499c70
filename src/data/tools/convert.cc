#include "data/tools/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "storage/storage.h"
#include "sullae/data/image.h"
#include "sullae/data/parquet.h"
#include "sullae/data/tar.h"
#include "sullae/data/tfrecord.h"

namespace sullae::data {
namespace {

// A file of samples of one of the formats.
class PartWriter {
 public:
  virtual ~PartWriter() = default;
  virtual void write(std::size_t number, const Example& example) = 0;
  virtual void close() = 0;
};

class TFRecordPart final : public PartWriter {
 public:
  explicit TFRecordPart(const std::filesystem::path& file) : writer_(file) {}
  void write(std::size_t, const Example& example) override { writer_.write(serialize(example)); }
  void close() override { writer_.close(); }

 private:
  TFRecordWriter writer_;
};

class TarPart final : public PartWriter {
 public:
  explicit TarPart(const std::filesystem::path& file) : writer_(file) {}
  void write(std::size_t number, const Example& example) override {
    writer_.write(fmt::format("{:08}", number), example);
  }
  void close() override { writer_.close(); }

 private:
  TarWriter writer_;
};

class ParquetPart final : public PartWriter {
 public:
  ParquetPart(const std::filesystem::path& file, const std::vector<FeatureType>& columns,
              bool compress)
      : writer_(file, columns,
                compress ? ParquetWriter::Compression::zstd : ParquetWriter::Compression::snappy) {}
  void write(std::size_t, const Example& example) override { writer_.write(example); }
  void close() override { writer_.close(); }

 private:
  ParquetWriter writer_;
};

// `columns`: of Parquet, those of all parts.
std::unique_ptr<PartWriter> make_part(const ConvertOptions& options,
                                      const std::filesystem::path& file,
                                      const std::vector<FeatureType>& columns) {
  if (options.format == "tar") return std::make_unique<TarPart>(file);
  if (options.format == "parquet")
    return std::make_unique<ParquetPart>(file, columns, options.compress);
  return std::make_unique<TFRecordPart>(file);
}

void check(const ConvertOptions& options) {
  const auto& formats = written_formats();
  if (std::ranges::find(formats, options.format) == formats.end())
    throw InputError(fmt::format("format '{}' cannot be written, expected one of {}",
                                 options.format, fmt::join(formats, ", ")));
  if (options.files < 1 || options.files > 99999)
    throw InputError(fmt::format("{} files: expected 1 to 99999", options.files));
  storage::make_folder(options.output);
}

// To decode every picture takes many times as long as to write it: without `whole` its header and
// its end are looked at, by which files that were cut off, or are something else, are known.
void check_image(const Example& example, const std::string& place, bool whole) {
  const auto* const jpeg = example.bytes(feature::kImage);
  if (jpeg == nullptr) return;
  try {
    if (whole) {
      decode_jpeg(*jpeg);
    } else {
      jpeg_size(*jpeg);
      // Some cameras write more behind it.
      if (jpeg->rfind("\xff\xd9") == std::string::npos)
        throw DamagedRecord("cannot be decoded: it is cut off");
    }
  } catch (const DamagedRecord& error) {
    throw DamagedRecord(fmt::format("{}: {}", place, error.what()));
  }
}

// Some formats have no room for every sample.
void write(PartWriter& writer, std::size_t number, const Example& example,
           const std::string& place) {
  try {
    writer.write(number, example);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

// Of part 3 of 8, say: "-of-00008.tfrecord".
std::string ending_of(const ConvertOptions& options) {
  const bool is_gzip = options.compress && options.format != "parquet";
  return fmt::format("-of-{:05}.{}{}", options.files, options.format, is_gzip ? ".gz" : "");
}

bool is_written(const std::string& name) {
  return name.starts_with("part-") && name.find("-of-") == 10 &&
         std::ranges::any_of(written_formats(), [&](const std::string& format) {
           return name.find('.' + format) == 19;
         });
}

}  // namespace

const std::vector<std::string>& written_formats() {
  static const std::vector<std::string> formats = {"tfrecord", "tar", "parquet"};
  return formats;
}

void prepare_output(const Dataset& dataset, const ConvertOptions& options) {
  check(options);
  const auto names = options.output / "classes.txt";
  // A store has the folder when something is in it.
  std::vector<storage::Entry> before;
  if (storage::exists(options.output)) before = storage::list(options.output);
  std::erase_if(before, [](const storage::Entry& entry) { return !is_written(entry.name); });
  if (!before.empty() && !options.overwrite)
    throw InputError(
        fmt::format("--output {}: has a data set already ({}): expected another folder, or "
                    "--overwrite, which removes it",
                    options.output.string(), before.front().name));
  for (const auto& entry : before) storage::remove(options.output / entry.name);
  storage::remove(names);
  if (!dataset.classes().empty())
    storage::write_file(names, fmt::format("{}\n", fmt::join(dataset.classes(), "\n")));
}

Converted convert(const Dataset& dataset, const ConvertOptions& options, DamageLog& damage,
                  const ShowProgress& show) {
  const auto order = epoch_order(dataset.size(), options.order, 0);
  const auto ranks = static_cast<std::size_t>(options.ranks);
  const auto rank = static_cast<std::size_t>(options.rank);
  std::vector<FeatureType> columns;
  if (options.format == "parquet") columns = parquet_columns(dataset);
  // Neighbours, which may be of one row group of what is read.
  const std::size_t first = options.files * rank / ranks;
  const std::size_t mine = options.files * (rank + 1) / ranks - first;
  std::atomic<std::size_t> written = 0;
  std::atomic<std::uintmax_t> bytes = 0;
  work_in_parallel(
      mine, options.threads, show, [&](std::size_t part, std::atomic<std::size_t>& done) {
        const std::size_t index = first + part;
        const auto file = options.output / fmt::format("part-{:05}{}", index, ending_of(options));
        const auto writer = make_part(options, file, columns);
        const std::size_t end = order.size() * (index + 1) / options.files;
        for (std::size_t i = order.size() * index / options.files; i < end; ++i, ++done) {
          try {
            const Example example = dataset.read(order[i]);
            check_image(example, dataset.place(order[i]), options.decode);
            write(*writer, i, example, dataset.place(order[i]));
            ++written;
          } catch (const DamagedRecord& error) {
            damage.report(error.what());
          }
        }
        writer->close();
        bytes += storage::status(file).value().bytes;
      });
  return {.samples = written, .files = mine, .bytes = bytes};
}

}  // namespace sullae::data
