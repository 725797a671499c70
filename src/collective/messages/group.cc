#include "collective/messages/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "sullae/error.h"

namespace sullae::messages {
Group::Group(std::shared_ptr<Messenger> messenger, std::string_view name, const Topology& topology,
             std::shared_ptr<const Failure> failure)
    : messenger_(std::move(messenger)),
      failure_(std::move(failure)),
      context_{fnv1a(name), topology.names, failure_.get()} {}

Operation Group::describe(bool sends, const void* memory, std::size_t count, DataType type,
                          int peer, int tag) const {
  const char* const what = sends ? "send to" : "receive from";
  const bool any = !sends && peer == kAnyPeer;
  if (!any && (peer < 0 || peer >= static_cast<int>(context_.members.size()))) {
    throw InputError(fmt::format("{} rank {}: expected a rank between 0 and {}{}", what, peer,
                                 context_.members.size() - 1, sends ? "" : ", or kAnySource"));
  }
  if (tag < 0)
    throw InputError(fmt::format("{} rank {} with tag {}: expected at least 0", what, peer, tag));
  if (memory == nullptr && count > 0)
    throw InputError(fmt::format("{} rank {}: a null pointer for {} elements", what, peer, count));
  return {.sends = sends,
          .context = &context_,
          .peer = any ? kAnyPeer : context_.members[static_cast<std::size_t>(peer)],
          .tag = tag,
          .type = type,
          .memory = const_cast<std::byte*>(static_cast<const std::byte*>(memory)),
          .bytes = count * element_size(type)};
}

void Group::send(const void* data, std::size_t count, DataType type, int to, int tag) {
  Operation operation = describe(true, data, count, type, to, tag);
  messenger_->run(operation);
}

int Group::receive(void* data, std::size_t count, DataType type, int from, int tag) {
  Operation operation = describe(false, data, count, type, from, tag);
  messenger_->run(operation);
  return index_of(operation.source);
}

void Group::send_async(const void* data, std::size_t count, DataType type, int to, int tag,
                       Finished finished) {
  start(describe(true, data, count, type, to, tag), std::move(finished));
}

void Group::receive_async(void* data, std::size_t count, DataType type, int from, int tag,
                          Finished finished) {
  start(describe(false, data, count, type, from, tag), std::move(finished));
}

void Group::start(Operation described, Finished finished) {
  const auto operation = std::make_shared<Operation>(std::move(described));
  operation->finished = [this, finished = std::move(finished)](const Operation& ended) {
    finished(ended.error, index_of(ended.source));
  };
  if (messenger_->start(operation)) operation->finished(*operation);
}

int Group::index_of(int rank) const {
  const auto found = std::ranges::find(context_.members, rank);
  return found == context_.members.end() ? kAnyPeer
                                         : static_cast<int>(found - context_.members.begin());
}

}  // namespace sullae::messages
