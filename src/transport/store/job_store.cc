#include "transport/store/job_store.h"

#include <string>

#include "transport/settings.h"

namespace sullae {

Store job_store(const Environment& environment, const Deadline& deadline) {
  std::string address;
  read_text(environment, "SULLAE_STORE", address);
  return {
      StoreAddress::parse(address), deadline, {}, RendezvousSettings::from(environment).job_secret};
}

}  // namespace sullae
