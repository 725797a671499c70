#include "collective/messages/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "sullae/error.h"

namespace sullae::messages {
namespace {

int bootstrap_tag(std::string_view key) {
  return std::numeric_limits<int>::min() + static_cast<int>(fnv1a(key) & 0x3fffffff);
}

}  // namespace

Group::Group(std::shared_ptr<Messenger> messenger, std::string_view name, const Topology& topology,
             std::shared_ptr<const Failure> failure)
    : messenger_(std::move(messenger)),
      failure_(std::move(failure)),
      context_{.number = fnv1a(name),
               .members = topology.names,
               .failure = failure_.get(),
               .is_set = !name.empty()} {}

void Group::check(Direction direction, const void* memory, std::size_t count, DataType type,
                  int peer, int tag) const {
  const bool may_be_any = direction == Direction::receive;
  const char* const what = direction == Direction::send ? "send to" : "receive from";
  const bool known = peer >= 0 && peer < static_cast<int>(context_.members.size());
  if (!known && !(may_be_any && peer == kAnyPeer)) {
    throw InputError(fmt::format("{} rank {}: expected a rank between 0 and {}{}", what, peer,
                                 context_.members.size() - 1, may_be_any ? ", or kAnySource" : ""));
  }
  if (tag < 0)
    throw InputError(fmt::format("{} rank {} with tag {}: expected at least 0", what, peer, tag));
  if (count > std::numeric_limits<std::size_t>::max() / element_size(type))
    throw InputError(fmt::format("{} rank {}: {} of {} are more than any memory", what, peer, count,
                                 name(type)));
  if (memory == nullptr && count > 0)
    throw InputError(fmt::format("{} rank {}: a null pointer for {} elements", what, peer, count));
}

Operation Group::send_of(const void* data, std::size_t count, DataType type, int to,
                         int tag) const {
  check(Direction::send, data, count, type, to, tag);
  return {Direction::send,
          context_,
          context_.members[static_cast<std::size_t>(to)],
          tag,
          type,
          const_cast<void*>(data),
          count * element_size(type)};
}

Operation Group::receive_of(void* data, std::size_t count, DataType type, int from, int tag) const {
  check(Direction::receive, data, count, type, from, tag);
  const int peer = from == kAnyPeer ? kAnyPeer : context_.members[static_cast<std::size_t>(from)];
  return {Direction::receive, context_, peer, tag, type, data, count * element_size(type)};
}

void Group::send(const void* data, std::size_t count, DataType type, int to, int tag) {
  Operation operation = send_of(data, count, type, to, tag);
  messenger_->run(operation);
}

int Group::receive(void* data, std::size_t count, DataType type, int from, int tag) {
  Operation operation = receive_of(data, count, type, from, tag);
  messenger_->run(operation);
  return from == kAnyPeer ? index_of(operation.source) : from;
}

void Group::send_async(const void* data, std::size_t count, DataType type, int to, int tag,
                       Finished finished) {
  start(send_of(data, count, type, to, tag), std::move(finished));
}

void Group::receive_async(void* data, std::size_t count, DataType type, int from, int tag,
                          Finished finished) {
  start(receive_of(data, count, type, from, tag), std::move(finished));
}

void Group::start(Operation described, Finished finished) {
  const auto operation = std::make_shared<Operation>(std::move(described));
  operation->finished = [this, finished = std::move(finished)](const Operation& ended) {
    finished(ended.error, index_of(ended.source));
  };
  if (messenger_->start(operation)) operation->finished(*operation);
}

void Group::put(int rank, std::string_view key, std::string_view value, const Failure& failure) {
  auto bytes = static_cast<std::int64_t>(value.size());
  Operation size(Direction::send, context_, rank, bootstrap_tag(key), DataType::int64, &bytes,
                 sizeof bytes);
  size.failure = &failure;
  messenger_->run(size);
  Operation text(Direction::send, context_, rank, bootstrap_tag(key), DataType::uint8,
                 const_cast<char*>(value.data()), value.size());
  text.failure = &failure;
  messenger_->run(text);
}

std::string Group::get(int rank, std::string_view key, const Failure& failure) {
  std::int64_t bytes = 0;
  Operation size(Direction::receive, context_, rank, bootstrap_tag(key), DataType::int64, &bytes,
                 sizeof bytes);
  size.failure = &failure;
  messenger_->run(size);
  std::string value(static_cast<std::size_t>(bytes), '\0');
  Operation text(Direction::receive, context_, rank, bootstrap_tag(key), DataType::uint8,
                 value.data(), value.size());
  text.failure = &failure;
  messenger_->run(text);
  return value;
}

int Group::index_of(int rank) const {
  const auto found = std::ranges::find(context_.members, rank);
  return found == context_.members.end() ? kAnyPeer
                                         : static_cast<int>(found - context_.members.begin());
}

}  // namespace sullae::messages
