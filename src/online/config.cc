#include "online/config.h"

namespace sullae::online {

OnlineConfig read_online_table(const TomlFile& file, const toml::node& node) {
  OnlineConfig config;
  const auto* table = node.as_table();
  if (table == nullptr) file.fail(node, "expected a table [online]");
  constexpr std::int64_t kMany = 1 << 30;
  file.apply(*table, {{"enabled", file.truth_into(config.enabled)},
                      {"data", file.text_into(config.data)},
                      {"test_data", file.text_into(config.test_data)},
                      {"min_examples", file.integer_into(config.min_examples, 1, kMany)},
                      {"max_age_seconds", file.integer_into(config.max_age, 0, kMany)},
                      {"epochs", file.integer_into(config.training.epochs, 1, 1000)},
                      {"batch_size", file.integer_into(config.training.batch_size, 1, 1 << 20)},
                      {"learning_rate", file.number_into(config.training.lr, 1e-12, 10)},
                      {"replay", file.number_into(config.training.replay, 0, 1e6)},
                      {"test_examples", file.integer_into(config.training.test_samples, 0, kMany)},
                      {"tolerance", file.number_into(config.tolerance, 0, 100)},
                      {"keep_versions", file.integer_into(config.keep_versions, 0, kMany)}});
  return config;
}

OnlineConfig read_online_config(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found)
    return {};
  const TomlFile file(path);
  const toml::table all = file.parse();
  const toml::node* const node = all.get("online");
  return node == nullptr ? OnlineConfig() : read_online_table(file, *node);
}

}  // namespace sullae::online
