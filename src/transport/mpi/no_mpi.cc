// Stands in for the MPI transport where the build found no MPI.
#include "sullae/error.h"
#include "transport/mpi/mpi_transport.h"

namespace sullae {

bool mpi_is_available() { return false; }

std::unique_ptr<Transport> make_mpi_transport(Rendezvous&, TransportOptions) {
  throw InputError("this build of Sullae has no MPI");
}

}  // namespace sullae
