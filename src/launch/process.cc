#include "launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/system_error.h"
#include "sullae/error.h"

namespace sullae {
namespace {

constexpr int kNotRun = 127;  // a shell's code for it
constexpr std::chrono::seconds kStartLimit{60};

// What a program is called with: made before the fork, after which other threads may hold the locks
// that it takes.
class Call {
 public:
  explicit Call(const ChildOptions& options) : words_(options.words) {
    const auto& own = options.environment;
    for (char** variable = ::environ; *variable != nullptr; ++variable) {
      const std::string_view text(*variable);
      if (!own.contains(std::string(text.substr(0, text.find('='))))) variables_.emplace_back(text);
    }
    for (const auto& [name, value] : own) variables_.push_back(fmt::format("{}={}", name, value));
    pointers_to(words_, arguments_);
    pointers_to(variables_, environment_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void take_environment() { ::environ = environment_.data(); }
  // Returns only when it fails, with errno set.
  void execute() { ::execvp(arguments_[0], arguments_.data()); }

 private:
  static void pointers_to(std::vector<std::string>& texts, std::vector<char*>& pointers) {
    for (auto& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }

  std::vector<std::string> words_;
  std::vector<std::string> variables_;
  std::vector<char*> arguments_;
  std::vector<char*> environment_;
};

// A program that was started without standard streams may have other files under their numbers.
int above_streams(int fd) {
  return fd >= 0 && fd <= STDERR_FILENO ? ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;
}

// Returns only when it fails, with errno set.
void become(const ChildOptions& options, Call& call, pid_t parent) {
  if (options.has_own_group) ::setpgid(0, 0);
  if (options.signal_at_end != 0) {
    ::prctl(PR_SET_PDEATHSIG, options.signal_at_end);
    if (::getppid() != parent) ::_exit(kNotRun);  // it has ended already
  }
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input =
      above_streams(options.input >= 0 ? options.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int output = above_streams(options.output);
  const int errors = above_streams(options.errors);
  ::dup2(input, STDIN_FILENO);
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  if (errors >= 0) ::dup2(errors, STDERR_FILENO);
  if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) return;
  call.take_environment();
  if (options.prepare) options.prepare();
  call.execute();
}

// A shell's users forget it, too.
std::string where_it_is(const ChildOptions& options) {
  const std::string& program = options.words.front();
  std::error_code ignored;
  if (program.find('/') != std::string::npos ||
      !std::filesystem::exists(options.directory / program, ignored))
    return "";
  return fmt::format(" in PATH; did you mean ./{}?", program);
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void limit_spinning() {
  if (::getenv("GOMP_SPINCOUNT") == nullptr)
    ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
}

pid_t start_child(const ChildOptions& options) {
  Pipe report = make_pipe();  // why there is no program; a successful exec closes it
  Call call(options);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw system_error("'{}' cannot be started: fork", options.words.front());
  if (pid == 0) {
    become(options, call, parent);
    const int reason = errno;
    [[maybe_unused]] const auto written = ::write(report.write.get(), &reason, sizeof reason);
    ::_exit(kNotRun);
  }
  // Also here, so that a signal to the group cannot come before the child has made it.
  if (options.has_own_group) ::setpgid(pid, pid);
  report.write.reset();
  const auto where =
      options.directory.empty() ? "" : fmt::format(" in {}", options.directory.string());
  pollfd polled{report.read.get(), POLLIN, 0};
  const Deadline deadline(kStartLimit, "the limit for a program to be started");
  int ready = 0;
  while ((ready = ::poll(&polled, 1, static_cast<int>(deadline.remaining().count()))) < 0 &&
         errno == EINTR) {
  }
  if (ready == 0) {
    kill_and_wait(pid);
    throw TimeoutError(fmt::format("'{}' was not started{} {}", options.words.front(), where,
                                   deadline.describe()));
  }
  int reason = 0;
  if (::read(report.read.get(), &reason, sizeof reason) != sizeof reason) return pid;
  kill_and_wait(pid);
  throw Error(fmt::format("'{}' cannot be run{}: {}{}", options.words.front(), where,
                          std::generic_category().message(reason),
                          reason == ENOENT ? where_it_is(options) : ""));
}

std::optional<int> wait_for_end(pid_t pid, const Deadline& deadline) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) throw system_error("waitpid");
    if (deadline.passed()) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

void kill_and_wait(pid_t pid) {
  constexpr std::chrono::seconds kLimit{5};
  ::kill(pid, SIGKILL);
  try {
    wait_for_end(std::abs(pid), Deadline(kLimit, "the limit for a killed process to end"));
  } catch (const Error&) {  // somebody else has waited for it
  }
}

}  // namespace sullae
