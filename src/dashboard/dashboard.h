// `sullae dashboard`: pages over runs, jobs, pipelines and models, for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace sullae::dashboard {

struct Options {
  std::filesystem::path folder = ".";
  std::string host = "127.0.0.1";
  /// 0: any that is free.
  std::uint16_t port = 6006;
  /// Tokens with roles, as `sullae serve` has them: "read" is enough.
  std::filesystem::path tokens_file = {};
  /// Draw a token, where there is no file of them, also for this machine's own address, at which
  /// its other users ask, too.
  bool draws_token = false;
  /// Without tokens: names by which clients may call this server, besides its own.
  std::vector<std::string> allowed_hosts = {};
  /// PEM files; both or none.
  std::string tls_certificate = {};
  std::string tls_key = {};
};

/// Serves from the constructor until it is destroyed. Nothing is written, and nothing is watched
/// while nobody asks. Any thread.
class Dashboard {
 public:
  /// Where others can reach it and there is no file of tokens, a token is drawn. Throws InputError
  /// for a folder that is not there, and Error for a port that is taken.
  explicit Dashboard(const Options& options);
  ~Dashboard();

  std::uint16_t port() const;
  /// The token that was drawn, or an empty text.
  const std::string& token() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::dashboard
