#include "train/source.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/counted.h"
#include "base/log.h"
#include "kafka/window.h"
#include "sullae/torch/checkpoint.h"
#include "torch/agreement.h"
#include "torch/broadcast_text.h"
#include "train/checkpoints.h"
#include "train/trained_on.h"

namespace sullae::train {
namespace {

// What the newest whole checkpoint was trained on.
std::optional<kafka::Address> trained_before(const RecipeOptions& options,
                                             const std::string& recipe) {
  if (!options.resume || !std::filesystem::is_directory(options.checkpoint_dir))
    return std::nullopt;
  for (const auto& file : checkpoints_in(options.checkpoint_dir, recipe)) {
    std::string data;
    try {
      data = trained_on(read_checkpoint_metadata(file), file.string()).data.string();
    } catch (const CheckpointError&) {
      continue;  // who loads it says so
    }
    if (!kafka::is_address(data))
      throw InputError(fmt::format("--resume: {} was trained on '{}': expected it as --data",
                                   file.string(), data));
    return kafka::parse_address(data);
  }
  return std::nullopt;
}

kafka::Address settle(const RecipeOptions& options, const std::string& recipe) {
  kafka::Address address = kafka::parse_address(options.source);
  if (!address.window.empty()) {
    if (!options.group.empty()) kafka::is_done(address, options.group);
    return address;
  }
  if (const auto before = trained_before(options, recipe)) {
    if (before->topic != address.topic)
      throw InputError(
          fmt::format("--resume: the checkpoints in {} are of topic '{}', and --source "
                      "says '{}'",
                      options.checkpoint_dir.string(), before->topic, address.topic));
    address.window = before->window;
    if (!options.group.empty() && kafka::is_done(address, options.group))
      throw InputError(fmt::format(
          "--resume: group '{}' has done what the newest checkpoint in {} was trained on: expected "
          "another --checkpoint-dir for what has come since",
          options.group, options.checkpoint_dir.string()));
    return address;
  }
  address.window = kafka::find_window(address, options.group);
  if (!address.window.empty()) return address;
  throw InputError(options.group.empty()
                       ? fmt::format("{}: holds no messages", address.name())
                       : fmt::format("{}: nothing has come that group '{}' has not done",
                                     address.name(), options.group));
}

}  // namespace

std::string settle_source(const RecipeOptions& options, const std::string& recipe,
                          const World& world) {
  std::string data;
  on_root(world, 0, [&] {
    const auto address = settle(options, recipe);
    std::int64_t count = 0;
    for (const auto& [partition, range] : address.window) count += range.end - range.begin;
    log::info("{}: training on {} messages of {}", address.name(), count,
              counted(address.window.size(), "partition"));
    data = address.to_string();
  });
  return broadcast_text(std::move(data), 0, world);
}

void finish_source(const RecipeOptions& options, const World& world) {
  if (options.group.empty()) return;
  on_root(world, 0, [&] {
    kafka::commit_window(kafka::parse_address(options.data.string()), options.group);
  });
}

}  // namespace sullae::train
