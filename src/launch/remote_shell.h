// Commands for other hosts.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sullae {

/// The path of `name` of the programs that are installed together: "sullae", or one of those that
/// it becomes, which are beside it or in libexec/sullae.
std::string own_program(const std::string& name = "sullae");

/// `word` as the shell takes it: quoted, whatever is in it.
std::string shell_word(const std::string& word);

/// The words that run `command` on `host` through `remote_shell` ("ssh -p 2222"): its words, the
/// host, and one quoted command line.
std::vector<std::string> remote_command(const std::string& remote_shell, const std::string& host,
                                        const std::vector<std::string>& command);

/// Those of this process's variables that ranks on other hosts get too: PATH, LD_LIBRARY_PATH, and
/// SULLAE_…, UCX_…, OMP_… and GOMP_….
std::map<std::string, std::string> variables_for_other_hosts();

}  // namespace sullae
