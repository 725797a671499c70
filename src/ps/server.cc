#include "ps/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/copy.h"
#include "base/log.h"
#include "ps/state_file.h"

namespace sullae::ps {
namespace {

// Larger than any message of a worker's: what is larger is not one.
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

}  // namespace

ServerLoop::ServerLoop(const ServerOptions& options)
    : options_(options),
      context_(1),
      socket_(context_, zmq::socket_type::router),
      members_(options.workers, options.lease) {
  if (options.workers < 1)
    throw InputError(
        fmt::format("parameter server: {} workers: expected 1 or more", options.workers));
  if (options.staleness < -1)
    throw InputError(fmt::format(
        "parameter server: staleness {}: expected a number of steps, or -1 for no bound",
        options.staleness));
  if (!options.state_file.empty()) {
    if (options.state_file.has_parent_path())
      std::filesystem::create_directories(options.state_file.parent_path());
    if (auto held = load_state(options.state_file, options.staleness)) {
      rule_ = held->rule;
      shards_ = std::move(held->shards);
      // Those of another job are none of this one's; without a secret there is no telling.
      if (held->job == job() && !options_.secret.empty())
        members_.restore(held->living, held->counted, Clock::now());
    }
  }
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, 0);
  socket_.set(zmq::sockopt::sndhwm, 0);
  socket_.set(zmq::sockopt::maxmsgsize, kMostBytes);
  try {
    socket_.bind(options.endpoint);
  } catch (const zmq::error_t& error) {
    throw Error(
        fmt::format("parameter server: cannot listen at '{}': {}", options.endpoint, error.what()));
  }
  endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
}

void ServerLoop::turn(std::chrono::milliseconds limit) {
  zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
  wait_for(&item, 1, limit);
  // Not as long as something comes: there is more to do.
  const auto until = Clock::now() + limit;
  Message message;
  bool has_heard_all = false;
  while (!has_heard_all && Clock::now() < until) {
    has_heard_all = !receive(message);
    if (!has_heard_all) answer(message);
  }
  // Else they may have been heard of in what has not been read yet.
  const auto gone = has_heard_all ? members_.expire(Clock::now()) : std::vector<int>();
  for (const int worker : gone)
    log::warning(
        "parameter server {}: nothing was heard of worker {} for {:.1f} s: it is waited for no "
        "more",
        endpoint_, worker, std::chrono::duration<double>(options_.lease).count());
  if (!gone.empty()) look_again();
  if (changed_ && Clock::now() - *changed_ >= options_.save_every) save();
}

void ServerLoop::save() {
  if (!changed_ || options_.state_file.empty()) return;
  save_state(options_.state_file, *rule_, shards_,
             {.living = members_.living(), .counted = members_.counted(), .job = job()});
  changed_.reset();
}

// Tells jobs apart, and does not tell the secret.
std::uint64_t ServerLoop::job() const { return std::hash<std::string>{}(options_.secret); }

void ServerLoop::note_change() {
  if (!changed_) changed_ = Clock::now();
}

void ServerLoop::forget(int worker) {
  members_.forget(worker);
  look_again();
}

// False where there is none; what is no message of ours is passed over.
bool ServerLoop::receive(Message& message) {
  for (;;) {
    message = {};
    if (!socket_.recv(message.from, zmq::recv_flags::dontwait)) return false;
    bool more = message.from.more();
    while (more) {
      zmq::message_t part;
      if (!socket_.recv(part)) return false;
      more = part.more();
      message.parts.push_back(std::move(part));
    }
    if (message.parts.empty() || message.parts.front().size() != sizeof(Header)) continue;
    copy_bytes(&message.header, message.parts.front().data(), sizeof(Header));
    if (message.header.magic != Header::kMagic) continue;
    message.parts.erase(message.parts.begin());
    return true;
  }
}

void ServerLoop::answer(Message& message) {
  const Header& header = message.header;
  if (header.kind == Kind::hello) return hello(message);
  if (!members_.hear(header.worker, header.incarnation, Clock::now()) || !rule_) {
    // It can say hello only when it wakes: a server that is new here does not wait for it.
    if (header.kind == Kind::alive_at_rest && !members_.has_joined(header.worker)) {
      members_.rest(header.worker);
      return look_again();
    }
    if (header.kind == Kind::alive || header.kind == Kind::alive_at_rest ||
        header.kind == Kind::leave)
      return;
    return reply(message.from, {.kind = Kind::unknown, .slice = header.slice});
  }
  answer_known(message);
}

void ServerLoop::answer_known(Message& message) {
  const Header& header = message.header;
  if (header.kind == Kind::alive || header.kind == Kind::alive_at_rest) return;
  if (header.kind == Kind::leave) {
    members_.leave(header.worker, header.incarnation);
    return look_again();
  }
  const auto found = shards_.find(header.slice);
  if (found == shards_.end())
    return refuse(message, fmt::format("it has no slice {}", header.slice));
  Shard& shard = found->second;
  if (header.kind == Kind::first) return first(message, shard);
  if (header.kind == Kind::rest) return rest(message);
  if (!shard.has_values()) return ask_for_values(message, shard);
  if (header.kind == Kind::pull) return pull(message, shard);
  if (header.kind == Kind::push) return push(message, shard);
  if (header.kind == Kind::pull_state) {
    const auto packed = pack(shard.states());
    return reply(message.from,
                 {.kind = Kind::state, .slice = header.slice, .question = header.question},
                 {packed.data(), packed.size()});
  }
  if (header.kind == Kind::put_state) return put_state(message, shard);
  if (header.kind == Kind::query) return query(message, shard);
  refuse(message, fmt::format("it knows no message {}", static_cast<unsigned>(header.kind)));
}

void ServerLoop::put_state(Message& message, Shard& shard) {
  if (message.parts.size() != 1 || !unpack(span_of<std::byte>(message.parts[0]), shard.states()))
    return refuse(message, fmt::format("a state that is none of slice {}", message.header.slice));
  note_change();
  reply(message.from,
        {.kind = Kind::stored, .slice = message.header.slice, .question = message.header.question});
}

void ServerLoop::rest(Message& message) {
  const Header& header = message.header;
  members_.rest(header.worker);
  reply(message.from, {.kind = Kind::resting, .slice = header.slice, .question = header.question});
  look_again();
}

void ServerLoop::pull(Message& message, Shard& shard) {
  const Header& header = message.header;
  if (!members_.counted().contains(header.worker)) {
    members_.count(header.worker);
    for (auto& [id, other] : shards_) other.join(header.worker, members_.counted());
  }
  wait_to_go_on(message, shard, header);
}

void ServerLoop::push(Message& message, Shard& shard) {
  const Header& header = message.header;
  const auto& parts = message.parts;
  if (parts.size() != 2 || parts[0].size() != shard.sizes().size() ||
      parts[1].size() != shard.elements() * sizeof(float))
    return refuse(message, fmt::format("a gradient that is none of slice {}", header.slice));
  Header answer = header;
  const PushId id{header.incarnation, header.question};
  if (!shard.has_taken(header.worker, id)) {
    const auto copy = is_aligned(parts[1]) ? std::vector<float>() : floats_of(parts[1]);
    const Delay delay = shard.take(
        {.worker = header.worker,
         .id = id,
         .learning_rate = header.learning_rate,
         .present = span_of<std::uint8_t>(parts[0]),
         .values = copy.empty() ? static_cast<const float*>(parts[1].data()) : copy.data()},
        members_.counted());
    note_change();
    answer.lead = delay.lead;
    answer.updates = delay.updates;
  }
  wait_to_go_on(message, shard, answer);
}

void ServerLoop::query(Message& message, Shard& shard) {
  const Header& header = message.header;
  if (!shard.has_taken(header.worker, {header.incarnation, header.question}))
    return reply(message.from,
                 {.kind = Kind::again, .slice = header.slice, .question = header.question});
  zmq::message_t from;
  from.copy(message.from);
  Header answer = header;
  for (const Waiting& one : waiting_[header.slice]) {
    if (one.header.worker != header.worker) continue;
    answer.lead = one.header.lead;
    answer.updates = one.header.updates;
  }
  wait_to_go_on(message, shard, answer);
  if (!shard.may_go_on(header.worker, members_.counted()))
    reply(from, {.kind = Kind::waiting,
                 .worker = shard.slowest(members_.counted()),
                 .slice = header.slice});
}

// A worker waits once for a slice.
void ServerLoop::wait_to_go_on(Message& message, Shard& shard, const Header& header) {
  auto& waiting = waiting_[header.slice];
  std::erase_if(waiting, [&](const Waiting& one) { return one.header.worker == header.worker; });
  waiting.push_back({std::move(message.from), header});
  release(waiting, shard);
}

void ServerLoop::look_again() {
  for (auto& [id, shard] : shards_) {
    shard.settle(members_.counted());
    release(waiting_[id], shard);
  }
}

void ServerLoop::release(std::vector<Waiting>& waiting, Shard& shard) {
  std::erase_if(waiting, [&](Waiting& one) {
    if (!shard.may_go_on(one.header.worker, members_.counted())) return false;
    give(one.to, one.header, shard);
    return true;
  });
}

void ServerLoop::give(zmq::message_t& to, Header header, Shard& shard) {
  header.kind = Kind::values;
  shard.pulled(header.worker);
  reply(to, header, message_on(shard.values()));
}

void ServerLoop::reply(zmq::message_t& to, const Header& header) {
  socket_.send(to, zmq::send_flags::sndmore);
  socket_.send(message_of(header), zmq::send_flags::none);
}

void ServerLoop::reply(zmq::message_t& to, const Header& header, zmq::message_t part) {
  socket_.send(to, zmq::send_flags::sndmore);
  socket_.send(message_of(header), zmq::send_flags::sndmore);
  socket_.send(part, zmq::send_flags::none);
}

void ServerLoop::refuse(Message& message, const std::string& why) {
  reply(message.from, {.kind = Kind::refused, .slice = message.header.slice}, message_of(why));
}

}  // namespace sullae::ps
