// Stands in for Parquet and Arrow files where the build found no Arrow C++.
#include "data/format/format.h"
#include "sullae/data/parquet.h"

namespace sullae::data {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw InputError(
      path.string() +
      ": this build of Sullae has no Parquet and Arrow files: build it where Arrow C++ is, with -D "
      "SULLAE_WITH_PARQUET=ON");
}

}  // namespace

DatasetPtr open_parquet_set(const std::filesystem::path& path, const Opening&) { refuse(path); }
DatasetPtr open_arrow_set(const std::filesystem::path& path, const Opening&) { refuse(path); }

class ParquetWriter::Impl {};

ParquetWriter::ParquetWriter(const std::filesystem::path& file, std::vector<FeatureType>,
                             Compression) {
  refuse(file);
}
ParquetWriter::~ParquetWriter() = default;
void ParquetWriter::write(const Example&) {}
void ParquetWriter::write(const std::vector<Cell>&) {}
void ParquetWriter::close() {}

}  // namespace sullae::data
