#include "base/deadline.h"

#include <fmt/format.h>

namespace sullae {

std::string Deadline::describe() const {
  return fmt::format("within {:g} s ({})", static_cast<double>(limit_.count()) / 1e3, setting_);
}

}  // namespace sullae
