#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cmath>
#include <map>
#include <string_view>

#include "example.pb.h"
#include "sullae/data/dataset.h"
#include "sullae/data/example.h"

namespace sullae::data {
namespace {

Feature take(proto::Feature& feature) {
  switch (feature.kind_case()) {
    case proto::Feature::kFloatList: {
      const auto& values = feature.float_list().value();
      return Values<float>(values.begin(), values.end());
    }
    case proto::Feature::kInt64List: {
      const auto& values = feature.int64_list().value();
      return Values<std::int64_t>(values.begin(), values.end());
    }
    default: {
      Values<std::string> values;
      for (std::string& value : *feature.mutable_bytes_list()->mutable_value())
        values.push_back(std::move(value));
      return values;
    }
  }
}

// It has no doubles.
float float_of(double value) {
  const auto real = static_cast<float>(value);
  if (std::trunc(value) == value && static_cast<double>(real) != value)
    throw InputError(
        fmt::format("{:.0f} is in a column of doubles, which tf.train.Example has as float32, with "
                    "whole numbers up to 16777216: expected a column of whole numbers, or of texts",
                    value));
  return real;
}

struct Put {
  proto::Feature& feature;
  void operator()(const Values<std::string>& values) const {
    auto& list = *feature.mutable_bytes_list();
    for (const auto& value : values) list.add_value(value);
  }
  void operator()(const Values<float>& values) const {
    feature.mutable_float_list()->mutable_value()->Add(values.begin(), values.end());
  }
  void operator()(const Values<double>& values) const {
    for (const double value : values) feature.mutable_float_list()->add_value(float_of(value));
  }
  void operator()(const Values<std::int64_t>& values) const {
    feature.mutable_int64_list()->mutable_value()->Add(values.begin(), values.end());
  }
};

}  // namespace

std::string serialize(const Example& example) {
  proto::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  for (const auto& [name, values] : example.features) std::visit(Put{features[name]}, values);
  // In the order of names, not in that of a hash table: the same example gives the same bytes.
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream output(&stream);
  output.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&output);
  output.Trim();
  return bytes;
}

Example parse_example(std::string_view bytes) {
  proto::Example message;
  if (bytes.size() > INT32_MAX ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw DamagedRecord("is no tf.train.Example: its bytes do not parse");
  Example example;
  // In the order of names, so that none is put in front of others.
  std::map<std::string_view, proto::Feature*> features;
  for (auto& [name, values] : *message.mutable_features()->mutable_feature())
    features.emplace(name, &values);
  for (const auto& [name, values] : features)
    example.features.insert_or_assign(name, take(*values));
  return example;
}

}  // namespace sullae::data
