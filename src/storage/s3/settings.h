// Where S3 is and who asks, from the places that AWS's own tools look in
// (docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/environment.h"
#include "storage/http.h"
#include "storage/s3/signature.h"

namespace sullae::storage {

struct S3Settings {
  std::string region = "us-east-1";
  /// "http://127.0.0.1:8333"; empty for Amazon's.
  std::string endpoint;
};

/// AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else of the profile
/// (AWS_PROFILE) in ~/.aws/config (AWS_CONFIG_FILE).
S3Settings read_s3_settings(const Environment& environment);

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else the profile in
/// ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE) or in
/// ~/.aws/config; else those of the container (AWS_CONTAINER_CREDENTIALS_FULL_URI, …_RELATIVE_URI);
/// else those of the EC2 instance's role (unless AWS_EC2_METADATA_DISABLED). Throws InputError
/// where there are none, and for a profile that says another way to get some. `source`: of those
/// that it has found before, which is asked for as long as a store is then, with storage_timeout().
Credentials find_credentials(const Environment& environment, Http& http,
                             const std::string& source = "");

/// The sections of such a file, and what they say; nothing where there is no file.
using Sections = std::map<std::string, std::map<std::string, std::string>>;
Sections read_sections(const std::filesystem::path& file);

}  // namespace sullae::storage
