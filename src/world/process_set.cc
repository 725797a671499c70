// How some of the ranks become a world of their own.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "collective/allgather_texts.h"
#include "world/world_impl.h"

namespace sullae {
namespace {

std::string list(std::span<const int> ranks) {
  return fmt::format("{{{}}}", fmt::join(ranks, ", "));
}

}  // namespace

std::unique_ptr<World::Impl> World::Impl::process_set(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  if (ranks.empty() || ranks.front() < 0 || ranks.back() >= topology_.size ||
      std::ranges::adjacent_find(ranks) != ranks.end()) {
    throw InputError(fmt::format("process set {}: expected different ranks between 0 and {}",
                                 list(ranks), topology_.size - 1));
  }
  check_same_set(ranks);
  tell_addresses();
  std::shared_ptr<Session> session;
  std::string name;
  {
    const std::lock_guard lock(foreground_mutex_);
    check_joined();
    session = session_;
    name = fmt::format("{}set{}/", name_, process_sets_++);
  }
  if (std::ranges::find(ranks, topology_.rank) == ranks.end()) return nullptr;
  return std::make_unique<Impl>(std::move(session), topology_.subset(ranks), name);
}

// A set may be used first when the store is gone.
void World::Impl::tell_addresses() {
  if (is_set() || topology_.size == 1) return;  // the world's ranks have told each other
  run("PROCESS_SET", 0, [&](Communicator& communicator) {
    if (std::exchange(addresses_told_, true)) return;
    messages::Messenger& messenger = *session_->messenger;
    const auto addresses = allgather_texts(communicator, messenger.address());
    for (std::size_t r = 0; r < addresses.size(); ++r)
      messenger.learn(topology_.names[r], addresses[r]);
  });
}

void World::Impl::check_same_set(const std::vector<int>& ranks) {
  run("PROCESS_SET", 0, [&](Communicator& communicator) {
    const auto size = static_cast<std::size_t>(topology_.size);
    std::vector<std::int32_t> mine(size, -1);
    std::ranges::copy(ranks, mine.begin());
    std::vector<std::int32_t> all(size * size);
    const std::vector<std::size_t> counts(size, size);
    communicator.allgather(mine.data(), all.data(), counts, DataType::int32);
    for (std::size_t r = 0; r < size; ++r) {
      const auto theirs = std::span(all).subspan(r * size, size);
      if (std::ranges::equal(theirs, mine)) continue;
      const auto end = std::ranges::find(theirs, -1);
      throw MismatchError(
          fmt::format("ranks disagree about the process set: rank {} gave {}, but rank {} gave {}",
                      topology_.names[static_cast<std::size_t>(topology_.rank)], list(ranks),
                      topology_.names[r], list({theirs.begin(), end})));
    }
  });
}

}  // namespace sullae
