// Messages through the site's MPI, for ranks that mpirun or srun has started as MPI processes.
#pragma once

#include <memory>

#include "transport/store/store.h"
#include "transport/transports.h"

namespace sullae {

/// Whether this build has MPI.
bool mpi_is_available();

/// Initialises MPI when nobody has, for the rest of the process, with MPI_THREAD_MULTIPLE: channels
/// have threads of their own. Each transport has a communicator of its own. Throws InputError where
/// this process is not the rank of MPI_COMM_WORLD that it is in Sullae's world, or MPI has no
/// thread support.
std::unique_ptr<Transport> make_mpi_transport(Rendezvous& rendezvous, TransportOptions options);

}  // namespace sullae
