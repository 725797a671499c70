#include "train/export.h"

#include <fmt/format.h>

#include "base/log.h"
#include "repository/publish.h"
#include "storage/storage.h"
#include "sullae/error.h"
#include "sullae/torch.h"
#include "train/find_model.h"

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

// What clients send, and what they get for it.
const char* describe_use(const ModelDescription& model) {
  if (!model.has_classes()) return "texts and writes what follows";
  return model.input == InputKind::text ? "texts and gives classes" : "images and gives classes";
}

}  // namespace

void check_replaces(const fs::path& model, const ModelDescription& own) {
  // Of one in a store all would be fetched.
  if (storage::is_remote(model) || !storage::exists(model)) return;
  FoundModel newest;
  try {
    newest = find_model(model);
  } catch (const InputError&) {
    return;  // it has no version
  }
  if (newest.file.filename() != repository::kModelFile)
    throw InputError(
        fmt::format("--export: {} is no checkpoint, and a version of a recipe is answered "
                    "otherwise: expected another name (--export-name)",
                    newest.file.string()));
  ModelDescription there;
  try {
    there = description_of(read_checkpoint_metadata(newest.file), newest.file.string());
  } catch (const Error& error) {  // a new version is the remedy
    log::warning("--export: {}", error.what());
    return;
  }
  if (std::string_view(describe_use(there)) != describe_use(own))
    throw InputError(
        fmt::format("--export: the model in {} takes {}, and this one takes {}: expected another "
                    "name (--export-name)",
                    model.string(), describe_use(there), describe_use(own)));
  if (there.classes != own.classes)
    log::warning("--export: the classes of {} are others than those of its newest version",
                 model.string());
}

fs::path export_version(const fs::path& directory, const std::string& name,
                        const std::function<void(const fs::path& file)>& write) {
  return repository::publish_version(directory, name, kConfigText, [&](const fs::path& folder) {
    write(folder / repository::kModelFile);
  });
}

}  // namespace sullae::train
