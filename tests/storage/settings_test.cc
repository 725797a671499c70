// Where S3's settings and credentials are looked for.
#include "storage/s3/settings.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/errors.h"
#include "support/store_server.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace storage;

class S3SettingsTest : public ::testing::Test {
 protected:
  Environment environment() const {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(std::string(name));
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
  }
  Credentials credentials() { return find_credentials(environment(), http_); }
  std::filesystem::path path(const char* name) const { return directory_.path() / name; }

  TemporaryDirectory directory_;
  Http http_;
  std::map<std::string, std::string> variables_ = {{"HOME", directory_.path().string()},
                                                   {"AWS_EC2_METADATA_DISABLED", "true"}};
};

TEST_F(S3SettingsTest, EnvironmentComesFirstThenTheFiles) {
  std::filesystem::create_directory(path(".aws"));
  write_file(path(".aws/credentials"),
             "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b=c\n\n[other]\n"
             "aws_access_key_id=o\naws_secret_access_key=p\naws_session_token=t\n");
  write_file(path(".aws/config"),
             "[default]\nregion = eu-west-1\n[profile other]\nregion=ap-northeast-2\n"
             "endpoint_url = http://store:9000/\n");
  EXPECT_EQ(credentials().access_key, "a");
  EXPECT_EQ(credentials().secret_key, "b=c");
  EXPECT_EQ(credentials().source, path(".aws/credentials").string());
  EXPECT_EQ(read_s3_settings(environment()).region, "eu-west-1");
  EXPECT_EQ(read_s3_settings(environment()).endpoint, "");
  variables_["AWS_PROFILE"] = "other";
  EXPECT_EQ(credentials().session_token, "t");
  EXPECT_EQ(read_s3_settings(environment()).region, "ap-northeast-2");
  EXPECT_EQ(read_s3_settings(environment()).endpoint, "http://store:9000");
  variables_["AWS_ACCESS_KEY_ID"] = "e";
  variables_["AWS_SECRET_ACCESS_KEY"] = "f";
  variables_["AWS_REGION"] = "us-west-2";
  variables_["AWS_ENDPOINT_URL"] = "https://all";
  EXPECT_EQ(credentials().access_key, "e");
  EXPECT_EQ(credentials().source, "AWS_ACCESS_KEY_ID");
  EXPECT_EQ(read_s3_settings(environment()).region, "us-west-2");
  EXPECT_EQ(read_s3_settings(environment()).endpoint, "https://all");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://s3";
  EXPECT_EQ(read_s3_settings(environment()).endpoint, "http://s3");
}

// As who wants none of a home's says it, and as it is where the home is another user's.
TEST_F(S3SettingsTest, FilesThatAreNoneSayNothing) {
  variables_["AWS_CONFIG_FILE"] = "/dev/null";
  variables_["AWS_SHARED_CREDENTIALS_FILE"] = "/proc/1/none/none";
  variables_["AWS_ACCESS_KEY_ID"] = "a";
  variables_["AWS_SECRET_ACCESS_KEY"] = "b";
  variables_["AWS_REGION"] = "us-west-2";
  EXPECT_EQ(read_s3_settings(environment()).region, "us-west-2");
  EXPECT_EQ(credentials().access_key, "a");
}

// As Kubernetes' services give them, with a token that is written anew now and then.
TEST_F(S3SettingsTest, AContainersTokenMayBeInAFile) {
  const StoreServer& server = StoreServer::empty();
  variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = server.url("/credentials");
  variables_["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = path("token");
  write_file(path("token"), "of today\n");
  EXPECT_EQ(credentials().access_key, "for of today");
  write_file(path("token"), "of tomorrow\n");
  EXPECT_EQ(credentials().access_key, "for of tomorrow");
}

TEST_F(S3SettingsTest, AWebIdentityIsNotTakenForTheInstances) {
  variables_["AWS_WEB_IDENTITY_TOKEN_FILE"] = path("token");
  EXPECT_TRUE(
      contains(error_of<InputError>([&] { credentials(); }),
               "s3: AWS_WEB_IDENTITY_TOKEN_FILE: credentials by a web identity are not asked for"));
}

// It is busy now and then, and whoever had its credentials once is no stranger to it.
TEST_F(S3SettingsTest, AnInstancesServiceThatIsKnownIsAskedAgain) {
  const StoreServer& server = StoreServer::empty();
  variables_.erase("AWS_EC2_METADATA_DISABLED");
  variables_["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = server.url("");
  Http http;
  const auto found = find_credentials(environment(), http);
  EXPECT_EQ(found.access_key, "of role");
  for (const char* faults : {R"(["drop", "503"])", R"(["ok", "503"])", R"(["ok", "ok", "drop"])"}) {
    server.fail(faults);
    EXPECT_EQ(find_credentials(environment(), http, found.source).access_key, "of role") << faults;
  }
  server.fail(R"(["403"])");
  EXPECT_EQ(error_of<InputError>([&] { find_credentials(environment(), http, found.source); }),
            "the credentials of the instance's role (" + server.url("/latest/api/token") +
                "): the answer is 403");
}

TEST_F(S3SettingsTest, AProfileWithoutKeysIsNotTakenForTheInstances) {
  std::filesystem::create_directory(path(".aws"));
  write_file(path(".aws/config"), "[profile prod]\nrole_arn = r\nsource_profile = default\n");
  variables_["AWS_PROFILE"] = "prod";
  EXPECT_EQ(error_of<InputError>([&] { credentials(); }),
            "s3: profile 'prod' has role_arn, which is not asked: expected keys, as `aws configure "
            "export-credentials --profile prod --format env` prints them");
  variables_["AWS_PROFILE"] = "prd";
  EXPECT_EQ(error_of<InputError>([&] { credentials(); }),
            "s3: AWS_PROFILE: there is no profile 'prd' in " + path(".aws/credentials").string() +
                " or " + path(".aws/config").string());
}

TEST_F(S3SettingsTest, SaysWhatIsMissing) {
  EXPECT_EQ(
      error_of<InputError>([&] { credentials(); }),
      "s3: there are no credentials: expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
      "the profile 'default' in " +
          path(".aws/credentials").string());
  variables_["AWS_ACCESS_KEY_ID"] = "e";
  EXPECT_EQ(error_of<InputError>([&] { credentials(); }),
            "s3: AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not");
  variables_["AWS_ENDPOINT_URL"] = "store:9000";
  EXPECT_EQ(error_of<InputError>([&] { read_s3_settings(environment()); }),
            "the endpoint of S3 is 'store:9000': expected http://HOST:PORT or https://HOST");
}

}  // namespace
}  // namespace sullae::testing
