#include "train/export.h"

#include "repository/publish.h"

namespace sullae::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigText =
    R"(# How `sullae serve` serves this model: settings with their defaults, of which docs/serving.md has more.

# max_batch_size = 64                  # rows that are computed together
# max_queue_delay_microseconds = 0     # how long a row may wait for others
# max_queue_size = 1024                # rows that may wait; more are refused with 429
# timeout_milliseconds = 10000         # a request that waits longer is refused with 504
# instances = 0                        # threads that compute; 0: one a processor
# version_policy = "latest"            # or "latest:2", "all", "1,3"
# new_version_percent = 100            # below 100 a new version is a canary until it is promoted

# A version that answers one of these otherwise is refused.
# [[golden]]
# instance = "…"
# expect = { label = "…" }
)";

}  // namespace

fs::path export_version(const fs::path& directory, const std::string& name,
                        const std::function<void(const fs::path& file)>& write) {
  return repository::publish_version(directory, name, kConfigText, [&](const fs::path& folder) {
    write(folder / repository::kModelFile);
  });
}

}  // namespace sullae::train
