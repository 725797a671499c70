// Files of predictions, a row a sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/tensors.h"
#include "sullae/data/example.h"
#include "sullae/data/parquet.h"

namespace sullae::predict {

/// What the number of a sample is called.
inline constexpr const char* kRowColumn = "row";

/// The formats that there are.
std::vector<std::string> formats();

/// What is written of samples.
struct RowFields {
  bool number = true;                ///< the sample's, as kRowColumn
  std::vector<std::string> columns;  ///< that travel along
  /// Of the model's; empty for all.
  std::vector<std::string> outputs;
  /// Those that the model says it has, [-1, …] each; empty where it says nothing.
  std::vector<serve::TensorSignature> known_outputs;
  /// Of those of `columns` of which the data set says it, or whose files must say it.
  std::vector<data::FeatureType> column_types;

  bool is_wanted(const std::string& output) const;
  /// Null where nothing is known.
  const data::FeatureType* type_of(const std::string& column) const;
};

/// What is written of a sample.
struct Row {
  std::uint64_t number = 0;  ///< of the sample in the data set
  const data::Example& sample;
  /// Of a batch, [rows, …] each, of which this one's is the row `of_batch`.
  const std::vector<serve::InferTensor>& outputs;
  std::size_t of_batch = 0;
};

/// The feature that a column is: a table's, or one of its name; null for none.
const data::Feature* column_of(const data::Example& sample, const std::string& name);

/// What a row is as bytes: a line of a file, or a message. Any thread.
class RowFormat {
 public:
  explicit RowFormat(RowFields fields) : fields_(std::move(fields)) {}
  virtual ~RowFormat() = default;
  const RowFields& fields() const { return fields_; }
  virtual void append(const Row& row, std::string& text) const = 0;
  /// What stands above the rows of a file: names; nothing where each row has its own.
  virtual void append_names(const std::vector<std::string>& /*outputs*/,
                            std::string& /*text*/) const {}

 private:
  RowFields fields_;
};

/// The formats that messages may have.
std::vector<std::string> message_formats();
/// One of those. Throws InputError.
std::unique_ptr<RowFormat> make_row_format(const std::string& format, RowFields fields);

/// A file that is whole or absent. Used by one thread.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  /// Throws Error that names the file, e.g. for a full disk.
  virtual void write(const Row& row) = 0;
  /// Puts the file in place.
  virtual void close() = 0;
};

std::unique_ptr<RowWriter> make_row_writer(const std::string& format,
                                           const std::filesystem::path& file, RowFields fields);

}  // namespace sullae::predict
