#include "support/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "support/content_of.h"

namespace sullae::testing {
namespace {

using Clock = std::chrono::steady_clock;

bool read_some(int& fd, std::string& into) {
  std::array<char, 65536> buffer;
  const auto n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }
  ::close(fd);
  fd = -1;
  return false;
}

}  // namespace

Program::Program(const std::vector<std::string>& words,
                 const std::map<std::string, std::string>& environment,
                 const std::string& directory) {
  std::array<int, 2> output{};
  std::array<int, 2> error{};
  if (::pipe2(output.data(), O_CLOEXEC) != 0 || ::pipe2(error.data(), O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    // A group of its own, so that a signal to the program is not one to the test.
    ::setpgid(0, 0);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    ::dup2(error[1], STDERR_FILENO);
    for (const auto& [name, value] : environment) {
      if (value.empty()) {
        ::unsetenv(name.c_str());
      } else {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
    }
    if (!directory.empty() && ::chdir(directory.c_str()) != 0) ::_exit(126);
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(output[1]);
  ::close(error[1]);
  output_ = output[0];
  error_ = error[0];
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {output_, error_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Program::signal(int signal) const { ::kill(pid_, signal); }

// False when both streams have ended.
bool Program::collect(std::chrono::milliseconds most) {
  if (output_ < 0 && error_ < 0) return false;
  std::array<pollfd, 2> polled{pollfd{output_, POLLIN, 0}, pollfd{error_, POLLIN, 0}};
  ::poll(polled.data(), polled.size(), static_cast<int>(most.count()));
  if (polled[0].revents != 0) read_some(output_, result_.standard_output);
  if (polled[1].revents != 0) read_some(error_, result_.standard_error);
  return true;
}

bool Program::wait_for_output(const std::string& text, std::chrono::seconds limit) {
  return wait_for_output_behind(0, text, limit);
}

bool Program::wait_for_more_output(const std::string& text, std::chrono::seconds limit) {
  const auto seen = result_.standard_output.size();
  return wait_for_output_behind(seen < text.size() ? 0 : seen - text.size() + 1, text, limit);
}

bool Program::wait_for_output_behind(std::size_t begin, const std::string& text,
                                     std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (Clock::now() < end) {
    if (result_.standard_output.find(text, begin) != std::string::npos) return true;
    if (!collect(std::chrono::milliseconds{100})) return false;
  }
  return false;
}

ProgramResult Program::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (collect(std::chrono::milliseconds{100})) {
    if (Clock::now() < end) continue;
    ADD_FAILURE() << "the program did not end within " << limit.count()
                  << " s; its output so far:\n"
                  << result_.standard_output << result_.standard_error;
    ::kill(pid_, SIGKILL);
    break;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result_;
}

ProgramResult run_program(const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& environment,
                          const std::string& directory) {
  return Program(words, environment, directory).wait();
}

std::string sullae_program() { return SULLAE_PROGRAM; }

std::vector<pid_t> processes_with(const std::string& mark) {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  while (const dirent* entry = ::readdir(directory.get())) {
    const auto pid = static_cast<pid_t>(std::atol(entry->d_name));
    if (pid <= 0 || pid == ::getpid()) continue;
    const std::string line = content_of(std::string("/proc/") + entry->d_name + "/cmdline");
    if (line.find(mark) != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool vanish(const std::string& mark) {
  const auto end = Clock::now() + std::chrono::seconds{10};
  while (!processes_with(mark).empty()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return true;
}

std::string unique_mark() {
  static std::atomic<int> next{0};
  return "sullae-mark-" + std::to_string(::getpid()) + '-' + std::to_string(next++);
}

}  // namespace sullae::testing
