#include "kafka/settings.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::kafka {
namespace {

using testing::contains;
using testing::error_of;

TEST(KafkaSettings, AreThoseOfAFileOfProperties) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "client.properties";
  write_file(file, "# of the cluster\n\n security.protocol = SASL_SSL \r\nsasl.password=a=b\n");
  const auto settings = read_settings(testing::environment_of(std::map<std::string, std::string>{
      {"SULLAE_KAFKA_CONFIG", file.string()}, {"SULLAE_KAFKA_TIMEOUT", "2.5"}}));
  EXPECT_EQ(settings.timeout, std::chrono::milliseconds{2500});
  EXPECT_EQ(settings.properties,
            (Properties{{"security.protocol", "SASL_SSL"}, {"sasl.password", "a=b"}}));
}

TEST(KafkaSettings, NameTheLineThatIsNone) {
  const testing::TemporaryDirectory directory;
  const auto file = directory.path() / "client.properties";
  write_file(file, "a=b\nsasl.password\n");
  const auto read = [](const std::string& name) {
    return error_of([&] { read_settings(testing::environment_of("SULLAE_KAFKA_CONFIG", name)); });
  };
  EXPECT_EQ(read(file), file.string() + ", line 2: 'sasl.password': expected name=value");
  EXPECT_EQ(read("/none"), "SULLAE_KAFKA_CONFIG: /none: No such file or directory");
}

}  // namespace
}  // namespace sullae::kafka
