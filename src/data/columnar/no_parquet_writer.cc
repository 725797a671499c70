// Stands in for the writer of Parquet files where the build found no Arrow C++.
#include "sullae/data/parquet.h"

namespace sullae::data {

class ParquetWriter::Impl {};

ParquetWriter::ParquetWriter(const std::filesystem::path& file, std::vector<ParquetColumn>,
                             Compression) {
  throw InputError(
      file.string() +
      ": this build of Sullae has no Parquet and Arrow files: build it where Arrow C++ is, with -D "
      "SULLAE_WITH_PARQUET=ON");
}
ParquetWriter::~ParquetWriter() = default;
void ParquetWriter::write(const Example&) {}
void ParquetWriter::write(const std::vector<Cell>&) {}
void ParquetWriter::close() {}

}  // namespace sullae::data
