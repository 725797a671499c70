#include "cli/other_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/environment.h"
#include "launch/binding.h"
#include "launch/blas_kernels.h"
#include "launch/environment.h"
#include "launch/process.h"
#include "launch/remote_shell.h"
#include "sullae/error.h"

namespace sullae::cli {

void become_other_program(const std::vector<std::string>& words) {
  if (words.empty()) return;
  const auto* const other = std::ranges::find(kOtherCommands, words.front(), &OtherCommand::name);
  if (other == kOtherCommands.end()) return;
  const auto program = own_program(other->program);
  std::string name = "sullae";  // as its messages and ps show it
  std::vector<char*> arguments = {name.data()};
  auto copies = words;
  for (auto& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  limit_spinning();
  if (other->takes_all_cores && !is_launched(process_environment())) use_all_cores();
  use_better_blas_kernels();
  ::execv(program.c_str(), arguments.data());
  const int reason = errno;
  const bool optional = other->program == std::string_view("sullae-serve");
  throw Error(fmt::format(
      "{}: cannot be started: {}: expected it beside sullae (`make build` builds it{}), "
      "or in libexec/sullae",
      program, std::generic_category().message(reason),
      optional ? ", where gRPC, Boost, OpenSSL and SQLite are" : ""));
}

}  // namespace sullae::cli
