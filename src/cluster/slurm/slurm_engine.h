// Slurm as an engine, by its commands: sbatch, squeue, scancel, scontrol, sinfo. Those of 20.11 and
// later will do.
#pragma once

#include <memory>

#include "cluster/engine.h"

namespace sullae::cluster {

std::unique_ptr<Engine> make_slurm_engine(const Settings& settings);

/// Of `squeue -o kQueueFormat`: those lines that are jobs of ours, of the folder that `jobs` marks.
extern const char* const kQueueFormat;
std::vector<EngineJob> parse_queue(std::string_view text, const std::string& jobs);
/// Of `sinfo -o kNodeFormat`, a node once.
extern const char* const kNodeFormat;
std::vector<Node> parse_nodes(std::string_view text);
/// "n[1-3,7],head" in full.
std::vector<std::string> expand_hosts(std::string_view list);

}  // namespace sullae::cluster
