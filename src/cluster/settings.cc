#include "cluster/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <sstream>

#include "base/environment.h"
#include "base/toml_file.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

std::filesystem::path home() {
  if (const auto variable = process_environment()("HOME")) return *variable;
  const passwd* const user = ::getpwuid(::getuid());
  if (user == nullptr) throw InputError("HOME is not set, and this user has no folder");
  return user->pw_dir;
}

}  // namespace

std::filesystem::path cluster_folder() {
  const auto variable = process_environment()("SULLAE_CLUSTER");
  return std::filesystem::absolute(variable ? std::filesystem::path(*variable)
                                            : home() / ".sullae" / "cluster");
}

Settings read_settings(const std::filesystem::path& folder) {
  Settings settings{.folder = folder};
  const auto path = folder / "cluster.toml";
  std::string jobs;
  if (std::filesystem::exists(path)) {
    const TomlFile file(path);
    const auto table = file.parse();
    settings.is_configured = true;
    file.apply(table, {{"jobs", file.text_into(jobs)},
                       {"slurm-conf", file.text_into(settings.slurm_conf)},
                       {"partition", file.text_into(settings.partition)},
                       {"high", file.text_into(settings.high)},
                       {"low", file.text_into(settings.low)},
                       {"coordinator", file.text_into(settings.coordinator)},
                       {"address", file.text_into(settings.address)},
                       {"private", file.truth_into(settings.is_private)},
                       {"sbatch", file.texts_into(settings.sbatch)}});
  }
  if (const auto variable = process_environment()("SULLAE_JOBS")) jobs = *variable;
  settings.jobs = jobs.empty() ? folder / "jobs" : std::filesystem::absolute(jobs);
  // Of storage that is not mounted, say: nothing is to be made below.
  if (std::error_code error;
      !jobs.empty() && !std::filesystem::exists(settings.jobs.parent_path(), error))
    throw InputError(
        fmt::format("{}, where jobs are kept (SULLAE_JOBS, or jobs in {}), has no folder to be in: "
                    "expected one "
                    "that all nodes have",
                    settings.jobs.string(), (folder / "cluster.toml").string()));
  return settings;
}

std::string name_of_priority(const Settings& settings, const std::string& priority) {
  if (priority != "high" && priority != "low") return {};
  const std::string& name = priority == "high" ? settings.high : settings.low;
  return name.empty() ? priority : name;
}

std::string to_toml(const Settings& settings) {
  toml::table table{{"jobs", settings.jobs.string()}, {"private", settings.is_private}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) table.insert(name, value);
  };
  add("slurm-conf", settings.slurm_conf);
  add("partition", settings.partition);
  add("high", settings.high);
  add("low", settings.low);
  add("coordinator", settings.coordinator);
  add("address", settings.address);
  if (!settings.sbatch.empty()) {
    toml::array words;
    for (const auto& word : settings.sbatch) words.push_back(word);
    table.insert("sbatch", words);
  }
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

}  // namespace sullae::cluster
