// A parameter server as users have it: `sullae ps`.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

class ServerProcess {
 public:
  ServerProcess(int workers, int staleness) {
    const auto program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sullae").string();
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(pipe[1], STDOUT_FILENO);
      ::execl(program.c_str(), "sullae", "ps", "--workers", std::to_string(workers).c_str(),
              "--staleness", std::to_string(staleness).c_str(), "--listen", "tcp://127.0.0.1:*",
              nullptr);
      ::_exit(127);
    }
    ::close(pipe[1]);
    // "parameter server at tcp://127.0.0.1:35537"
    std::FILE* const said = ::fdopen(pipe[0], "r");
    char line[256] = "";
    const bool has_line = std::fgets(line, sizeof line, said) != nullptr;
    std::fclose(said);
    if (!has_line) throw std::runtime_error(program + " ps does not start");
    const std::string text = line;
    const auto from = text.find("tcp:");
    endpoint_ = text.substr(from, text.find_last_not_of('\n') + 1 - from);
  }
  ~ServerProcess() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  const std::string& endpoint() const { return endpoint_; }

 private:
  pid_t pid_ = -1;
  std::string endpoint_;
};
