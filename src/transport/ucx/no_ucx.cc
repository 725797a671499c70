// Stands in for the UCX transport where the build found no UCX.
#include "sullae/error.h"
#include "transport/ucx/ucx_transport.h"

namespace sullae {

bool ucx_is_available() { return false; }

std::unique_ptr<Transport> make_ucx_transport(Rendezvous&, TransportOptions) {
  throw InputError("this build of Sullae has no UCX");
}

}  // namespace sullae
