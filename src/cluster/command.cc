#include "cluster/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/split.h"
#include "base/system_error.h"
#include "launch/process.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

// Reads what is there; closes at the end.
void drain(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const auto n = ::read(fd.get(), buffer.data(), buffer.size());
  if (n > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  } else if (n == 0 || errno != EINTR) {
    fd.reset();
  }
}

// What a child reads from its beginning: a file without a name, so that nobody waits until it is
// read.
UniqueFd input_of(const std::string& text) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw system_error("memfd_create");
  return file;
}

}  // namespace

std::chrono::milliseconds command_timeout() {
  std::chrono::milliseconds timeout{std::chrono::seconds{30}};
  read_seconds(process_environment(), kCommandTimeout, ZeroMeans::error, timeout);
  return timeout;
}

CommandResult run_command(const Command& command) {
  const UniqueFd input = input_of(command.input);
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const pid_t pid = start_child({.words = command.words,
                                 .input = input.get(),
                                 .output = output.write.get(),
                                 .errors = errors.write.get(),
                                 .has_own_group = false,
                                 .prepare = [fd = command.inherited_fd] {
                                   if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
                                 }});
  output.write.reset();
  errors.write.reset();

  const Deadline deadline(command.timeout, command.timeout_setting);
  CommandResult result;
  while (output.read || errors.read) {
    std::array<pollfd, 2> polled{{{output.read.get(), POLLIN, 0}, {errors.read.get(), POLLIN, 0}}};
    if (deadline.passed()) break;
    ::poll(polled.data(), polled.size(), static_cast<int>(deadline.remaining().count()));
    if (polled[0].revents != 0) drain(output.read, result.output);
    if (polled[1].revents != 0) drain(errors.read, result.errors);
  }
  const bool is_read = !output.read && !errors.read;
  const auto status = is_read ? wait_for_end(pid, deadline) : std::nullopt;
  if (!status) {
    kill_and_wait(pid);
    throw TimeoutError(
        fmt::format("{} did not answer {}", command.words.front(), deadline.describe()));
  }
  result.exit_code = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  return result;
}

bool is_installed(const std::string& program) {
  if (program.find('/') != std::string::npos) return ::access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  return std::ranges::any_of(split(path == nullptr ? "" : path, ':'), [&](const auto& folder) {
    return ::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0;
  });
}

}  // namespace sullae::cluster
