// Messages within one group of ranks: a world or a process set, whose ranks are numbered from 0.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "collective/messages/messenger.h"
#include "sullae/types.h"
#include "transport/topology.h"

namespace sullae::messages {

/// Any thread may call. Ranks are the group's, in errors the world's.
class Group {
 public:
  /// What became of an asynchronous operation: its error or null, and the rank that it came from.
  using Finished = std::function<void(const std::exception_ptr& error, int source)>;

  /// `name` is the same on all ranks of the group, and no other group's; the world's is empty.
  /// `failure` ends every wait once it happens.
  Group(std::shared_ptr<Messenger> messenger, std::string_view name, const Topology& topology,
        std::shared_ptr<const Failure> failure);

  // As World's. Throw InputError for a rank that is none, a negative tag, or no memory.
  void send(const void* data, std::size_t count, DataType type, int to, int tag);
  int receive(void* data, std::size_t count, DataType type, int from, int tag);
  /// `finished` is called once, perhaps before they return.
  void send_async(const void* data, std::size_t count, DataType type, int to, int tag,
                  Finished finished);
  void receive_async(void* data, std::size_t count, DataType type, int from, int tag,
                     Finished finished);
  void leave() { messenger_->leave(context_); }

  /// As Rendezvous, apart from the user's messages. `rank` is the world's; `failure` ends the wait.
  void put(int rank, std::string_view key, std::string_view value, const Failure& failure);
  std::string get(int rank, std::string_view key, const Failure& failure);
  /// See Messenger.
  void watch(std::function<void()> wanted) { messenger_->watch(context_, std::move(wanted)); }
  void want() { messenger_->want(context_); }

 private:
  void check(Direction direction, const void* memory, std::size_t count, DataType type, int peer,
             int tag) const;
  Operation send_of(const void* data, std::size_t count, DataType type, int to, int tag) const;
  Operation receive_of(void* data, std::size_t count, DataType type, int from, int tag) const;
  void start(Operation operation, Finished finished);
  int index_of(int rank) const;

  std::shared_ptr<Messenger> messenger_;
  std::shared_ptr<const Failure> failure_;
  Context context_;
};

}  // namespace sullae::messages
