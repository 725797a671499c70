// `sullae serve` as a process of its own, so that it can be killed.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/program.h"

namespace sullae::testing {

class ServerProgram {
 public:
  /// With free ports, and quick to notice versions. Throws std::runtime_error where it does not
  /// start.
  explicit ServerProgram(const std::filesystem::path& repository,
                         const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {
        sullae_program(),         "serve", repository, "--http-port", "0", "--grpc-port", "0",
        "--repository-poll-secs", "0.05"};
    words.insert(words.end(), options.begin(), options.end());
    program_ = std::make_unique<Program>(words);
    const std::string mark = "://127.0.0.1:";
    if (!program_->wait_for_output("gRPC at")) throw std::runtime_error("sullae serve: no start");
    const auto at = program_->output().find(mark) + mark.size();
    port_ = static_cast<std::uint16_t>(std::stoi(program_->output().substr(at)));
  }

  std::uint16_t port() const { return port_; }
  Program& program() { return *program_; }
  void kill() {
    program_->signal(9);
    program_->wait();
  }

 private:
  std::unique_ptr<Program> program_;
  std::uint16_t port_ = 0;
};

}  // namespace sullae::testing
