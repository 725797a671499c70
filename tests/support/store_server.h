// A server of S3 and WebHDFS on this host, for the tests of one process
// (tests/storage/store_server.py, which STORE_SERVER is).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "support/program.h"

namespace sullae::testing {

class StoreServer {
 public:
  /// The process's, empty: what asks a store remembers where it is.
  static const StoreServer& empty() {
    static const StoreServer server;
    run_program({"curl", "-sf", "-d", "", server.url("/clear")});
    return server;
  }
  StoreServer() : program_({"python3", STORE_SERVER}) {
    EXPECT_TRUE(program_.wait_for_output("\n"));
    port_ = program_.output().substr(5, program_.output().find('\n') - 5);
    for (const auto& [name, value] : environment()) ::setenv(name.c_str(), value.c_str(), 1);
  }

  /// What programs need to find it, and to be let in.
  std::map<std::string, std::string> environment() const {
    return {{"AWS_ENDPOINT_URL_S3", url("")},    {"AWS_ACCESS_KEY_ID", "test"},
            {"AWS_SECRET_ACCESS_KEY", "secret"}, {"AWS_REGION", "eu-north-1"},
            {"HADOOP_USER_NAME", "tester"},      {"SULLAE_STORAGE_TIMEOUT", "60"}};
  }
  std::string s3(const std::string& path) const { return "s3://bucket/" + path; }
  std::string webhdfs(const std::string& path) const {
    return "webhdfs://127.0.0.1:" + port_ + "/" + path;
  }
  std::string url(const std::string& path) const { return "http://127.0.0.1:" + port_ + path; }

  /// Puts an object behind the stores' backs.
  void put(const std::string& key, const std::string& content) const {
    run_program({"curl", "-sf", "--data-binary", content, url("/objects/" + key)});
  }
  void put_file(const std::string& key, const std::string& file) const {
    run_program({"curl", "-sf", "--data-binary", "@" + file, url("/objects/" + key)});
  }
  /// What happens to the next requests: "ok", "503", "drop", "half".
  void fail(const std::string& json) const {
    run_program({"curl", "-sf", "-d", json, url("/faults")});
  }
  /// Of files, so far.
  long long bytes_sent() const {
    return std::stoll(run_program({"curl", "-sf", url("/sent")}).standard_output);
  }

 private:
  Program program_;
  std::string port_;
};

}  // namespace sullae::testing
