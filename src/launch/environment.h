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

/// The first host of a Slurm node list: "node[003-007,9],gpu1" gives "node003".
std::string first_slurm_host(std::string_view node_list);

}  // namespace sullae
