#include "launch/remote_shell.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string_view>

namespace sullae {
namespace {

std::string quote(const std::string& word) {
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

}  // namespace

namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "sullae";
constexpr const char* kTorchProgram = "sullae-torch";

fs::path running_program() { return fs::read_symlink("/proc/self/exe"); }

// `beside` the running program, or where it is when both are installed.
std::string other_program(const char* beside, const char* installed) {
  const fs::path folder = running_program().parent_path();
  const fs::path near = folder / beside;
  return fs::exists(near) ? near.string() : (folder / installed).lexically_normal().string();
}

}  // namespace

std::string own_program() {
  const fs::path running = running_program();
  return running.filename() == kTorchProgram ? other_program(kProgram, "../../bin/sullae")
                                             : running.string();
}

std::string torch_program() {
  const fs::path running = running_program();
  return running.filename() == kTorchProgram
             ? running.string()
             : other_program(kTorchProgram, "../libexec/sullae/sullae-torch");
}

std::vector<std::string> remote_command(const std::string& remote_shell, const std::string& host,
                                        const std::vector<std::string>& command) {
  std::vector<std::string> words;
  std::istringstream stream(remote_shell);
  for (std::string word; stream >> word;) words.push_back(word);
  words.push_back(host);
  std::string line = "exec";
  for (const auto& word : command) line += ' ' + quote(word);
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
                        name.starts_with("OMP_");
    if (wanted) variables.emplace(name, text.substr(equals + 1));
  }
  return variables;
}

}  // namespace sullae
