#include "sullae/communicator.h"

#include "collective/messages/group.h"
#include "sullae/error.h"

namespace sullae {

messages::Group& Communicator::messages() {
  if (!messages_) throw Error("this communicator was made without messages");
  return *messages_;
}

void Communicator::send(const void* data, std::size_t count, DataType type, int to, int tag) {
  messages().send(data, count, type, to, tag);
}

int Communicator::receive(void* data, std::size_t count, DataType type, int from, int tag) {
  return messages().receive(data, count, type, from, tag);
}

}  // namespace sullae
