#include "base/failpoint.h"

namespace sullae {

void failpoint(std::string_view) {}

}  // namespace sullae
