#include "transport/transports.h"

#include <algorithm>

#include "sullae/error.h"
#include "transport/mpi/mpi_transport.h"
#include "transport/ucx/ucx_transport.h"

namespace sullae {
namespace {

std::vector<TransportKind>& registry() {
  static std::vector<TransportKind> kinds = [] {
    std::vector<TransportKind> built_in;
    if (ucx_is_available()) built_in.push_back({"ucx", make_ucx_transport});
    if (mpi_is_available()) built_in.push_back({"mpi", make_mpi_transport});
    return built_in;
  }();
  return kinds;
}

}  // namespace

const std::vector<TransportKind>& transports() { return registry(); }

void register_transport(TransportKind kind) { registry().push_back(std::move(kind)); }

const TransportKind* find_transport(const std::string& name) {
  const auto found = std::ranges::find(registry(), name, &TransportKind::name);
  return found == registry().end() ? nullptr : &*found;
}

const TransportKind& choose_transport(const std::string& name) {
  const TransportKind* const chosen = find_transport(name);
  if (chosen != nullptr) return *chosen;
  if (transports().empty()) {
    throw InputError(
        "the ranks are on several hosts, and this build of Sullae has no transport between hosts: "
        "build it where UCX is, with -D SULLAE_WITH_UCX=ON");
  }
  return transports().front();
}

}  // namespace sullae
