#include "launch/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "sullae/adapter.h"
#include "transport/tf_config.h"

namespace sullae {
namespace {

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return environment_(name).has_value(); }
  std::optional<std::string> find(std::string_view name) const { return environment_(name); }

  std::string text(std::string_view name, std::string_view because) const {
    auto value = environment_(name);
    if (!value)
      throw InputError(fmt::format("{} is not set, although {} is: expected both", name, because));
    return *value;
  }
  std::optional<TfConfig> tf_config() const { return sullae::tf_config(environment_); }
  int integer(std::string_view name, std::string_view because, int least, int most) const {
    return static_cast<int>(parse_integer(text(name, because), name, least, most));
  }

 private:
  const Environment& environment_;
};

WorldOptions place(const Reader& reader, std::string_view rank_name, std::string_view size_name) {
  WorldOptions options;
  options.size = reader.integer(size_name, rank_name, 1, INT_MAX);
  options.rank = reader.integer(rank_name, size_name, 0, INT_MAX);
  if (options.rank >= options.size) {
    throw InputError(fmt::format("{}={} and {}={}: expected a rank below the size", rank_name,
                                 options.rank, size_name, options.size));
  }
  options.serve_store = true;
  return options;
}

// A store that the user names wins over what the launcher's variables would give.
std::optional<std::string> named_store(const Reader& reader) {
  if (auto store = reader.find("SULLAE_STORE")) return store;
  if (!reader.has("MASTER_ADDR")) return std::nullopt;
  const int port = reader.integer("MASTER_PORT", "MASTER_ADDR", 1, 65535);
  return fmt::format("{}:{}", *reader.find("MASTER_ADDR"), port);
}

// Ranks of one host need no port: an abstract socket named after the job is enough.
std::string local_store(std::string_view launcher, std::string_view job) {
  return fmt::format("unix:sullae-{}-{}-{}", launcher, ::getuid(), job);
}

std::string store_for(const Reader& reader, std::string_view launcher, std::string_view job,
                      bool one_host) {
  if (auto store = named_store(reader)) return *store;
  if (one_host) return local_store(launcher, job);
  throw InputError(
      fmt::format("{} started ranks on several hosts, but not where rank 0 is: set MASTER_ADDR to "
                  "rank 0's host and "
                  "MASTER_PORT to a free port there, for every rank",
                  launcher));
}

std::optional<WorldOptions> from_sullae(const Reader& reader) {
  if (!reader.has("SULLAE_RANK") && !reader.has("SULLAE_SIZE")) return std::nullopt;
  WorldOptions options = place(reader, "SULLAE_RANK", "SULLAE_SIZE");
  if (options.size > 1) options.store = reader.text("SULLAE_STORE", "SULLAE_RANK");
  // `sullae run` serves the store itself.
  options.serve_store = reader.find("SULLAE_SERVE_STORE").value_or("1") != "0";
  return options;
}

std::optional<WorldOptions> from_torchrun(const Reader& reader) {
  if (!reader.has("RANK") || !reader.has("WORLD_SIZE")) return std::nullopt;
  WorldOptions options = place(reader, "RANK", "WORLD_SIZE");
  if (options.size == 1) return options;
  const std::string host = reader.text("MASTER_ADDR", "RANK");
  int port = reader.integer("MASTER_PORT", "RANK", 1, 65534);
  // torchrun's agent keeps its own store on MASTER_PORT.
  if (reader.find("TORCHELASTIC_USE_AGENT_STORE") == "True") ++port;
  options.store = reader.find("SULLAE_STORE").value_or(fmt::format("{}:{}", host, port));
  return options;
}

std::optional<WorldOptions> from_open_mpi(const Reader& reader) {
  if (!reader.has("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  WorldOptions options = place(reader, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  const int local_size =
      reader.integer("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK", 1, INT_MAX);
  auto job = reader.find("PMIX_NAMESPACE");
  if (!job) job = reader.find("OMPI_MCA_ess_base_jobid");
  options.store = store_for(reader, "mpirun", job.value_or(fmt::to_string(::getppid())),
                            local_size == options.size);
  return options;
}

// MPICH's Hydra and its kin, also where Slurm has started it, or its proxies. Slurm's own PMI sets
// these too, to the same as Slurm's own variables, which say more.
std::optional<WorldOptions> from_pmi(const Reader& reader) {
  const auto rank = reader.find("PMI_RANK");
  if (!rank) return std::nullopt;
  if (rank == reader.find("SLURM_PROCID") &&
      reader.find("PMI_SIZE") == reader.find("SLURM_STEP_NUM_TASKS"))
    return std::nullopt;
  WorldOptions options = place(reader, "PMI_RANK", "PMI_SIZE");
  const bool one_host = reader.find("MPI_LOCALNRANKS") == fmt::to_string(options.size);
  options.store = store_for(
      reader, "PMI", reader.find("PMI_JOBID").value_or(fmt::to_string(::getppid())), one_host);
  return options;
}

// SLURM_STEP_NUM_TASKS is there in what srun starts, and not in a batch script, which is one
// process.
std::optional<WorldOptions> from_slurm(const Reader& reader) {
  if (!reader.has("SLURM_PROCID") || !reader.has("SLURM_STEP_NUM_TASKS")) return std::nullopt;
  WorldOptions options = place(reader, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  if (options.size == 1) return options;
  if (auto store = named_store(reader)) {
    options.store = *store;
    return options;
  }
  const auto job =
      parse_integer(reader.text("SLURM_JOB_ID", "SLURM_PROCID"), "SLURM_JOB_ID", 0, LLONG_MAX / 64);
  // Those of interactive shells are large.
  const auto step =
      parse_integer(reader.text("SLURM_STEP_ID", "SLURM_PROCID"), "SLURM_STEP_ID", 0, UINT32_MAX);
  if (reader.find("SLURM_STEP_NUM_NODES") == "1") {
    options.store = local_store("slurm", fmt::format("{}.{}", job, step));
    return options;
  }
  auto nodes = reader.find("SLURM_STEP_NODELIST");
  if (!nodes) nodes = reader.text("SLURM_JOB_NODELIST", "SLURM_PROCID");
  // Below the ports that Linux hands to outgoing connections (32768 and up).
  const auto port = 12000 + (job * 61 + step) % 20000;
  options.store = fmt::format("{}:{}", first_slurm_host(*nodes), port);
  return options;
}

std::optional<WorldOptions> from_tf_config(const Reader& reader) {
  const auto config = reader.tf_config();
  if (!config) return std::nullopt;
  if (config->task == TfConfig::Task::parameter_server)
    throw InputError(fmt::format(
        "TF_CONFIG: task ps {} is no rank, but a parameter server: expected sullae ps, or sullae "
        "train",
        config->index));
  // A program that knows nothing of evaluators would train all by itself.
  if (config->task == TfConfig::Task::evaluator)
    throw InputError(
        "TF_CONFIG: task evaluator is no rank: expected sullae train, which tests "
        "the checkpoints that ranks write");
  WorldOptions options;
  options.rank = config->index;
  options.size = static_cast<int>(config->ranks.size());
  options.serve_store = true;
  options.store = reader.find("SULLAE_STORE").value_or(config->ranks.front());
  return options;
}

// That of a launcher which has started this process; nothing where none has.
std::optional<WorldOptions> launched_world(const Environment& environment) {
  const Reader reader(environment);
  for (const auto detect :
       {from_sullae, from_torchrun, from_open_mpi, from_pmi, from_slurm, from_tf_config}) {
    if (auto options = detect(reader)) return options;
  }
  return std::nullopt;
}

}  // namespace

WorldOptions detect_world(const Environment& environment) {
  return launched_world(environment).value_or(WorldOptions());
}

bool is_launched(const Environment& environment) {
  try {
    return launched_world(environment).has_value();
  } catch (const InputError&) {  // which who joins is told
    return true;
  }
}

World create_job_world(const WorldOptions& options) {
  World world = World::create(options);
  const Environment environment = process_environment();
  std::string timeline;
  std::string job;
  read_text(environment, "SULLAE_TIMELINE", timeline);
  read_text(environment, "SULLAE_JOB_ID", job);
  if (!timeline.empty()) AdapterView(world).start_timeline(timeline, job, options.generation);
  return world;
}

std::string first_slurm_host(std::string_view node_list) {
  // "rack[0-3]-blade[0-41]": of each bracket the first number.
  std::string host;
  for (auto rest = node_list;;) {
    const auto end = std::min(rest.find_first_of(",["), rest.size());
    host += rest.substr(0, end);
    if (end == rest.size() || rest[end] == ',') return host;
    const auto first = rest.find_first_of(",-]", end + 1);
    const auto close = rest.find(']', end + 1);
    if (close == std::string_view::npos || first == end + 1)
      throw InputError(
          fmt::format("node list '{}': expected a form such as node[01-04]", node_list));
    host += rest.substr(end + 1, first - end - 1);
    rest.remove_prefix(close + 1);
  }
}

}  // namespace sullae
