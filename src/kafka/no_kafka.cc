// Stands in for Kafka where the build found no librdkafka.
#include "kafka/consumer.h"
#include "kafka/producer.h"
#include "kafka/window.h"
#include "sullae/error.h"

namespace sullae::kafka {
namespace {

[[noreturn]] void refuse(const Address& address) {
  throw InputError(address.name() +
                   ": this build of Sullae has no Kafka: build it where librdkafka is, with -D "
                   "SULLAE_WITH_KAFKA=ON");
}

}  // namespace

class Consumer::Impl {};
Consumer::Consumer(const Address& from, const std::string&, IsToEnd) { refuse(from); }
Consumer::~Consumer() = default;
std::vector<Message> Consumer::poll(std::size_t, std::chrono::milliseconds) { return {}; }
void Consumer::commit() {}
Standing Consumer::standing() const { return {}; }

class Producer::Impl {};
Producer::Producer(const Address& to, IsToEnd) { refuse(to); }
Producer::~Producer() = default;
void Producer::send(std::string_view, std::string_view) {}
void Producer::flush() {}

Window find_window(const Address& topic, const std::string&) { refuse(topic); }
void fetch_window(const Address& address, const std::function<void(const Message&)>&) {
  refuse(address);
}
bool is_done(const Address& address, const std::string&) { refuse(address); }
void commit_window(const Address& address, const std::string&) { refuse(address); }

}  // namespace sullae::kafka
