#include "cluster/hello.h"

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace sullae::cluster {

using Json = nlohmann::json;

void LauncherAddress::write(const std::filesystem::path& attempt) const {
  const Json json{{"address", host}, {"port", port}, {"secret", secret}, {"answer", answer}};
  write_file(attempt / "coordinator.json", json.dump() + "\n");
}

std::optional<LauncherAddress> LauncherAddress::read(const std::filesystem::path& attempt) {
  constexpr std::size_t kMostBytes = 4096;
  const auto file = attempt / "coordinator.json";
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto json = Json::parse(read_file(file, kMostBytes));
  return LauncherAddress{.host = json.at("address"),
                         .port = json.at("port"),
                         .secret = json.at("secret"),
                         .answer = json.at("answer")};
}

std::string Hello::to_json() const {
  return Json{{"version", version},     {"secret", secret}, {"node", node},
              {"engine_id", engine_id}, {"slots", slots},   {"problem", problem}}
      .dump();
}

Hello Hello::from_json(const std::string& text) {
  const auto json = Json::parse(text);
  Hello hello;
  json.at("version").get_to(hello.version);
  json.at("secret").get_to(hello.secret);
  json.at("node").get_to(hello.node);
  json.at("engine_id").get_to(hello.engine_id);
  json.at("slots").get_to(hello.slots);
  json.at("problem").get_to(hello.problem);
  return hello;
}

}  // namespace sullae::cluster
