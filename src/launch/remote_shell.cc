#include "launch/remote_shell.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string_view>

namespace sullae {

namespace fs = std::filesystem;

std::string shell_word(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string own_program(const std::string& name) {
  fs::path running = fs::read_symlink("/proc/self/exe");
  // It was installed anew since: what stands in its place now.
  constexpr std::string_view kDeleted = " (deleted)";
  if (const std::string text = running; text.ends_with(kDeleted))
    running = text.substr(0, text.size() - kDeleted.size());
  const std::string own = running.filename();
  // Also where it was renamed.
  if (own == name || (name == "sullae" && !own.starts_with("sullae-"))) return running.string();
  const fs::path folder = running.parent_path();
  for (const char* other : {".", "../libexec/sullae", "../../bin"}) {
    const fs::path program = (folder / other / name).lexically_normal();
    if (fs::exists(program)) return program.string();
  }
  return (folder / name).string();
}

std::vector<std::string> remote_command(const std::string& remote_shell, const std::string& host,
                                        const std::vector<std::string>& command) {
  std::vector<std::string> words;
  std::istringstream stream(remote_shell);
  for (std::string word; stream >> word;) words.push_back(word);
  words.push_back(host);
  std::string line = "exec";
  for (const auto& word : command) line += ' ' + shell_word(word);
  words.push_back(line);
  return words;
}

std::map<std::string, std::string> variables_for_other_hosts() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const auto name = text.substr(0, equals);
    const bool wanted = name == "PATH" || name == "LD_LIBRARY_PATH" ||
                        name.starts_with("SULLAE_") || name.starts_with("UCX_") ||
                        name.starts_with("OMP_") || name.starts_with("GOMP_");
    if (wanted) variables.emplace(name, text.substr(equals + 1));
  }
  return variables;
}

}  // namespace sullae
