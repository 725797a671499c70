#include "dashboard/histories.h"

#include <utility>

namespace sullae::dashboard {

void Histories::with(const std::filesystem::path& file,
                     const std::function<void(const runs::History&)>& look) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    auto& found = entries_[file];
    if (found) {
      used_.splice(used_.begin(), used_, found->place);
    } else {
      found = std::make_shared<Entry>(file);
      found->place = used_.insert(used_.begin(), file);
    }
    entry = found;
  }
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(entry->mutex);
    entry->history.update();
    look(entry->history);
    bytes = entry->history.bytes();
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(file);
  if (found == entries_.end() || found->second != entry) return;  // has made room meanwhile
  bytes_ += bytes - std::exchange(entry->bytes, bytes);
  make_room();
}

// What is being looked at lives on with whoever looks.
void Histories::make_room() {
  while (bytes_ > most_bytes_ && used_.size() > 1) {
    const auto oldest = entries_.find(used_.back());
    bytes_ -= oldest->second->bytes;
    entries_.erase(oldest);
    used_.pop_back();
  }
}

}  // namespace sullae::dashboard
