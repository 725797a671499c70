// How commands that read data sets are told what they are.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sullae/data/dataset.h"

namespace sullae::cli {

inline CLI::Validator data_format() {
  auto formats = data::dataset_formats();
  formats.insert(formats.begin(), "auto");
  return CLI::IsMember(formats);
}

/// `format_flag`, --text-columns, --label-column and --success-file, which it returns.
inline CLI::Option* add_reading_options(CLI::App& app, const std::string& format_flag,
                                        data::DatasetOptions& reading) {
  app.add_option(format_flag, reading.format, "Format of the data; auto looks at names and content")
      ->check(data_format())
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--text-columns", reading.text_columns, "Of tables: the columns of the text")
      ->type_name("NAMES");
  app.add_option("--label-column", reading.label_column, "Of tables: the column of the label")
      ->type_name("NAME");
  return app
      .add_option("--success-file", reading.success_file,
                  "Whether folders must have _SUCCESS; auto: those of Spark and Hadoop; but for "
                  "no, also all parts that say how many they are")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str()
      ->type_name("WHEN");
}

}  // namespace sullae::cli
