// What the environment says about this process's place in a world.
#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "sullae/sullae.h"

namespace sullae {

/// The options that init() joins with. Looks, in this order, for Sullae's own variables,
/// torchrun's, Open MPI's, PMI's, Slurm's and TF_CONFIG, and gives a world of one when there are
/// none. Throws InputError that names the variable which is missing or wrong.
WorldOptions detect_world(const Environment& environment);

/// Whether a launcher has started this process as one of its ranks, so that the host's processors
/// are not all its own.
bool is_launched(const Environment& environment);

/// World::create() for the world that this process's job is, whose timeline is the job's
/// (SULLAE_TIMELINE); any other world that a process makes has none of its own accord. Collective.
World create_job_world(const WorldOptions& options);

/// The first host of a Slurm node list: "node[003-007,9],gpu1" gives "node003".
std::string first_slurm_host(std::string_view node_list);

}  // namespace sullae
