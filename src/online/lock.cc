#include "online/lock.h"

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file_lock.h"
#include "base/system_error.h"
#include "repository/serving_state.h"
#include "sullae/error.h"

namespace sullae::online {
OnlineLock::OnlineLock(const std::filesystem::path& directory) {
  const auto file = directory / repository::kLearningLock;
  constexpr mode_t kMode = 0666;
  fd_.reset(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode));
  if (!fd_) throw system_error("{}", file.string());
  if (!try_lock(fd_.get(), file))
    throw InputError(fmt::format("{}: another process learns for this model", directory.string()));
}

bool OnlineLock::is_held(const std::filesystem::path& directory) {
  return is_locked(directory / repository::kLearningLock).value_or(false);
}

}  // namespace sullae::online
