#include "launch/process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "base/processes.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include "support/variable.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

constexpr std::chrono::seconds kLimit{60};

int status_of(pid_t pid) {
  return wait_for_end(pid, Deadline(kLimit, "the test's limit")).value_or(-1);
}

// What a shell writes that is started so.
std::string output_of(ChildOptions options, const std::string& script) {
  const TemporaryDirectory directory;
  const UniqueFd file(::memfd_create("output", MFD_CLOEXEC));
  options.words = {"sh", "-c", script};
  options.output = file.get();
  EXPECT_EQ(status_of(start_child(options)), 0) << script;
  return content_of("/proc/self/fd/" + std::to_string(file.get()));
}

TEST(StartChild, HasTheStreamsThatItIsGiven) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const pid_t pid = start_child({.words = {"sh", "-c", "cat; echo wrong >&2; exit 3"},
                                 .input = input.read.get(),
                                 .output = output.write.get(),
                                 .errors = errors.write.get()});
  ASSERT_EQ(::write(input.write.get(), "text", 4), 4);
  input.write.reset();
  const int status = status_of(pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  std::string text(16, '\0');
  EXPECT_EQ(::read(output.read.get(), text.data(), text.size()), 4);
  EXPECT_EQ(text.substr(0, 4), "text");
  EXPECT_EQ(::read(errors.read.get(), text.data(), text.size()), 6);
}

TEST(StartChild, ReadsNothingWhereNothingIsGiven) {
  EXPECT_EQ(output_of({}, "cat; echo end"), "end\n");
}

TEST(StartChild, HasItsVariablesBesideOursOrInsteadOfThem) {
  const Variable own("SULLAE_TEST_OWN", "ours");
  const Variable other("SULLAE_TEST_OTHER", "ours");
  EXPECT_EQ(output_of({.environment = {{"SULLAE_TEST_OTHER", "its"}, {"SULLAE_TEST_NEW", ""}}},
                      "echo \"$SULLAE_TEST_OWN $SULLAE_TEST_OTHER ${SULLAE_TEST_NEW-none}\""),
            "ours its \n");
  EXPECT_EQ(std::string(std::getenv("SULLAE_TEST_OTHER")), "ours");
}

TEST(StartChild, IsPreparedLast) {
  const TemporaryDirectory directory;
  EXPECT_EQ(output_of({.directory = directory.path(),
                       .environment = {{"SULLAE_TEST_NEW", "first"}},
                       .prepare =
                           [] {
                             ::setenv("SULLAE_TEST_NEW", "last", 1);
                           }},
                      "pwd; echo $SULLAE_TEST_NEW"),
            std::filesystem::canonical(directory.path()).string() + "\nlast\n");
}

TEST(StartChild, HasAGroupOfItsOwnOrOurs) {
  for (const bool own : {true, false}) {
    const pid_t pid = start_child({.words = {"sleep", "100"}, .has_own_group = own});
    const auto state = state_of_process(pid);
    ASSERT_TRUE(state);
    EXPECT_EQ(state->group, own ? pid : ::getpgrp());
    kill_and_wait(pid);
    EXPECT_FALSE(is_running(pid));
  }
}

// Whoever waits for signals has them blocked, and whoever is started in the background of a script
// ignores SIGINT.
TEST(StartChild, EndsBySignalsWhateverWeMadeOfThem) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
  const auto ignored = std::signal(SIGINT, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) {
    const pid_t pid = start_child({.words = {"sleep", "100"}});
    ::kill(pid, signal);
    const int status = status_of(pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal;
  }
  std::signal(SIGINT, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(StartChild, EndsWithTheThreadThatStartedIt) {
  pid_t pid = 0;
  std::thread([&] {
    pid = start_child({.words = {"sleep", "100"}, .signal_at_end = SIGTERM});
  }).join();
  const int status = status_of(pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(StartChild, SaysWhatCannotBeRun) {
  EXPECT_EQ(error_of([] { start_child({.words = {"sullae-has-no-such-program"}}); }),
            "'sullae-has-no-such-program' cannot be run: No such file or directory");
  EXPECT_EQ(error_of([] { start_child({.words = {"/etc/passwd"}}); }),
            "'/etc/passwd' cannot be run: Permission denied");
  EXPECT_EQ(error_of([] { start_child({.words = {"true"}, .directory = "/none"}); }),
            "'true' cannot be run in /none: No such file or directory");
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "mine") << "#!/bin/sh\n";
  EXPECT_EQ(error_of([&] { start_child({.words = {"mine"}, .directory = directory.path()}); }),
            "'mine' cannot be run in " + directory.path().string() +
                ": No such file or directory in PATH; did you mean ./mine?");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

}  // namespace
}  // namespace sullae::testing
