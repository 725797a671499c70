#include "serve/model/config.h"

#include <fmt/format.h>

#include "base/device_name.h"
#include "base/number.h"
#include "base/split.h"
#include "base/toml_file.h"
#include "sullae/error.h"

namespace sullae::serve {
namespace {

namespace fs = std::filesystem;

class Reader : private TomlFile {
 public:
  explicit Reader(const fs::path& file) : TomlFile(file) {}

  ModelConfig read() {
    const toml::table table = parse();
    auto& d = config_.description;
    d.numbers = {{"max-words", 64}, {"normalise", 0},        {"word-pairs", 0},
                 {"channels", 3},   {"centre-share", 0.875}, {"image-size", 224}};
    d.mean = {0.485, 0.456, 0.406};
    d.deviation = {0.229, 0.224, 0.225};
    const Settings settings = {
        {"max_batch_size", integer_into(config_.max_batch_size, 0, 1 << 20)},
        {"max_queue_delay_microseconds", integer_into(config_.max_queue_delay, 0, 60'000'000)},
        {"max_queue_size", integer_into(config_.max_queue_size, 1, 1 << 30)},
        {"timeout_milliseconds", integer_into(config_.timeout, 1, 86'400'000)},
        {"kv_cache_megabytes", integer_into(config_.kv_cache_megabytes, 0, 1 << 30)},
        {"device",
         [&](auto& n) {
           config_.device = device(n);
         }},
        {"instances", integer_into(config_.instances, 0, 1024)},
        {"version_policy",
         [&](auto& n) {
           config_.version_policy = policy(n);
         }},
        {"new_version_percent", integer_into(config_.new_version_percent, 1, 100)},
        {"online",
         [&](auto& n) {
           config_.online = online::read_online_table(*this, n);
         }},
        {"golden",
         [&](auto& n) {
           golden(n);
         }},
        {"preprocessing",
         [&](auto& n) {
           const auto kind = one_of(n, {"none", "text", "image"});
           config_.preprocessing = kind == "text"    ? Preprocessing::text
                                   : kind == "image" ? Preprocessing::image
                                                     : Preprocessing::none;
         }},
        {"inputs",
         [&](auto& n) {
           config_.inputs = signatures(n);
         }},
        {"outputs",
         [&](auto& n) {
           config_.outputs = signatures(n);
         }},
        {"vocabulary", text_into(config_.vocabulary_file)},
        {"classes", text_into(config_.classes_file)},
        {"max_words", integer_into(d.numbers["max-words"], 1, 1 << 20)},
        {"normalise",
         [&](auto& n) {
           d.numbers["normalise"] = truth(n) ? 1 : 0;
         }},
        {"image_size", integer_into(d.numbers["image-size"], 1, 1 << 14)},
        {"channels",
         [&](auto& n) {
           d.numbers["channels"] = channels(n);
         }},
        {"centre_share",
         [&](auto& n) {
           d.numbers["centre-share"] = positive(n, 1);
         }},
        {"mean",
         [&](auto& n) {
           for_channels(n, d.mean, [&](const auto& value) { return number(value); });
         }},
        {"deviation",
         [&](auto& n) {
           for_channels(n, d.deviation,
                        [&](const auto& value) { return positive(value, kLargest); });
         }},
    };
    apply(table, settings);
    if (config_.max_queue_delay >= config_.timeout)
      fail(
          *table.get(table.contains("max_queue_delay_microseconds") ? "max_queue_delay_microseconds"
                                                                    : "timeout_milliseconds"),
          fmt::format("a request waits for others for {} us, and {} ms at most for its answer: "
                      "expected less",
                      config_.max_queue_delay.count(), config_.timeout.count()));
    config_.written = true;
    return std::move(config_);
  }

 private:
  static constexpr double kLargest = 1e9;

  double positive(const toml::node& node, double most) const {
    const double value = number(node);
    if (!(value > 0 && value <= most))
      expect(node, fmt::format("a number above 0{}",
                               most < kLargest ? fmt::format(", {} at most", most) : ""));
    return value;
  }
  double channels(const toml::node& node) const {
    const auto value = integer(node, 1, 3);
    if (value == 2) expect(node, "1 (grey) or 3 (red, green and blue)");
    return static_cast<double>(value);
  }
  template <class Read>
  void for_channels(const toml::node& node, std::vector<double>& values, Read read) const {
    const auto* array = node.as_array();
    if (array == nullptr || (array->size() != 1 && array->size() != 3))
      expect(node, "a list of three numbers, for red, green and blue, or of one for all");
    values.clear();
    for (const auto& value : *array) values.push_back(read(value));
  }
  std::string device(const toml::node& node) const {
    auto value = text(node);
    if (!is_device_name(value)) fail(node, fmt::format("'{}': expected {}", value, kDeviceNames));
    return value;
  }
  VersionPolicy policy(const toml::node& node) const {
    const auto value = text(node);
    if (value == "latest") return {};
    if (value == "all") return {.latest = VersionPolicy::kAll, .versions = {}};
    constexpr std::string_view kLatest = "latest:";
    const auto parse = [&](std::string_view part) {
      const auto parsed = number_in<std::int64_t>(part).value_or(0);
      if (parsed < 1) {
        fail(node,
             fmt::format("'{}': expected latest, latest:N, all, or versions such as 1,3", value));
      }
      return parsed;
    };
    if (value.starts_with(kLatest))
      return {.latest = static_cast<std::size_t>(parse(value.substr(kLatest.size()))),
              .versions = {}};
    VersionPolicy result{.latest = 0, .versions = {}};
    for (const auto& part : split(value, ',')) result.versions.push_back(parse(part));
    if (result.versions.empty()) parse("");
    return result;
  }
  std::vector<TensorSignature> signatures(const toml::node& node) const {
    const auto* array = node.as_array();
    if (array == nullptr) fail(node, "expected [[inputs]] or [[outputs]] tables");
    std::vector<TensorSignature> list;
    for (const auto& item : *array) {
      const auto* table = item.as_table();
      if (table == nullptr || !table->get("name") || !table->get("datatype") ||
          !table->get("shape") || table->get("shape")->as_array() == nullptr)
        fail(item, "expected a table with name, datatype and shape");
      expect_keys(*table, {"name", "datatype", "shape"});
      TensorSignature signature{.name = text(*table->get("name")), .shape = {}};
      try {
        signature.datatype = parse_datatype(text(*table->get("datatype")));
      } catch (const Error& error) {
        fail(item, error.what());
      }
      for (const auto& size : *table->get("shape")->as_array())
        signature.shape.push_back(integer(size, -1, 1 << 30));
      list.push_back(std::move(signature));
    }
    return list;
  }
  void golden(const toml::node& node) {
    const auto* array = node.as_array();
    if (array == nullptr) fail(node, "expected [[golden]] tables");
    for (const auto& item : *array) {
      const auto* table = item.as_table();
      if (table == nullptr || !table->get("instance") || !table->get("expect"))
        fail(item, "expected a table with instance and expect");
      expect_keys(*table, {"instance", "expect", "tolerance"});
      GoldenRequest request{.instance = to_json(*table->get("instance")),
                            .expect = to_json(*table->get("expect"))};
      if (const auto* tolerance = table->get("tolerance"))
        request.tolerance = number(*tolerance, 0, kLargest);
      config_.golden.push_back(std::move(request));
    }
  }
  nlohmann::json to_json(const toml::node& node) const {
    if (const auto* value = node.as_string()) return value->get();
    if (const auto* value = node.as_integer()) return value->get();
    if (const auto* value = node.as_floating_point()) return value->get();
    if (const auto* value = node.as_boolean()) return value->get();
    if (const auto* array = node.as_array()) {
      auto list = nlohmann::json::array();
      for (const auto& item : *array) list.push_back(to_json(item));
      return list;
    }
    if (const auto* table = node.as_table()) {
      auto object = nlohmann::json::object();
      for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
      return object;
    }
    fail(node, "expected a text, a number, true or false, or lists and tables of them");
  }

  ModelConfig config_;
};

}  // namespace

ModelConfig read_model_config(const fs::path& file) {
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) return {};
  return Reader(file).read();
}

}  // namespace sullae::serve
