// Messages that a topic has now, to be read once or often, the same each time.
#pragma once

#include <functional>
#include <string>

#include "kafka/address.h"
#include "kafka/message.h"

namespace sullae::kafka {

/// All that `topic` has; with a group what follows what it has committed. Partitions without a
/// message are left out. Throws InputError where what follows is gone, and Error.
Window find_window(const Address& topic, const std::string& group);

/// Calls `take` with the messages of address.window, of each partition in their order; those that
/// the broker has dropped or that are marks of transactions are not there. Throws InputError where
/// the first ones are gone, or a partition ends before its range does, Error, and what `take`
/// throws.
void fetch_window(const Address& address, const std::function<void(const Message&)>& take);

/// Whether the group has done address.window, all of it. Throws InputError where it is before it:
/// what is between would be lost to it.
bool is_done(const Address& address, const std::string& group);
/// The group has done address.window, and what it has done before. Throws Error.
void commit_window(const Address& address, const std::string& group);

}  // namespace sullae::kafka
