#include "transport/transports.h"

#include <algorithm>

#include "transport/mpi/mpi_transport.h"
#include "transport/ucx/ucx_transport.h"

namespace sullae {
namespace {

std::vector<TransportKind>& registry() {
  static std::vector<TransportKind> kinds = [] {
    std::vector<TransportKind> built_in = {{"ucx", make_ucx_transport}};
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
  return chosen != nullptr ? *chosen : transports().front();
}

}  // namespace sullae
