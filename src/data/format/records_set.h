// Data sets of records that are in no file.
#pragma once

#include <memory>

#include "data/record/records.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

/// The formats of which a record is a sample: jsonl (an object), csv, tsv (a row), tfrecord (a
/// tf.train.Example).
std::vector<std::string> record_formats();

/// The format that they have, by what the first hundred look like: any that is no table says so.
std::string recognise_records(const Records& records);

/// Of a record of options.format; see Format::shape. Throws InputError where there is no such
/// format.
std::string shape_of_record(const std::string& record, const DatasetOptions& options);

/// options.format "auto" recognises. Throws InputError for records that are none of theirs, and
/// where there is none.
DatasetPtr open_records(std::shared_ptr<const Records> records, const DatasetOptions& options);

}  // namespace sullae::data
