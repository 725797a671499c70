#include "ps/server/loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/copy.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/number.h"
#include "ps/server/state_file.h"

namespace sullae::ps {
namespace {

// Larger than any message of a worker's: what is larger is not one.
constexpr std::int64_t kMostBytes = kMostPart + (std::int64_t{1} << 20);

// ZeroMQ would listen at another.
void check_port(const std::string& endpoint) {
  constexpr int kMost = 65535;
  const auto port = std::string_view(endpoint).substr(endpoint.rfind(':') + 1);
  const bool is_number = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
  if (endpoint.starts_with("tcp://") && is_number &&
      number_in<int>(port).value_or(kMost + 1) > kMost)
    throw InputError(
        fmt::format("parameter server: '{}': expected a port from 0 to {}, or *", endpoint, kMost));
}

}  // namespace

ServerLoop::ServerLoop(const ServerOptions& options)
    : options_(options),
      context_(1),
      socket_(context_, zmq::socket_type::router),
      replies_(socket_) {
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
    lock_ = own_state_file(options.state_file);
    for (auto& group : load_state(options_, job(), replies_))
      groups_.emplace(group_of(group->name(), options_.secret), std::move(group));
  }
  check_port(options.endpoint);
  socket_.set(zmq::sockopt::ipv6, 1);  // too
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, 0);
  socket_.set(zmq::sockopt::sndhwm, 0);
  socket_.set(zmq::sockopt::maxmsgsize, kMostBytes);
  try {
    socket_.bind(options.endpoint);
  } catch (const zmq::error_t& error) {
    throw Error(fmt::format(
        "parameter server: cannot listen at '{}' ({}): expected a free address of this host "
        "as tcp://HOST:PORT, or tcp://*:PORT",
        options.endpoint, error.what()));
  }
  endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
  for (const auto& [id, group] : groups_) group->members().renew(Clock::now());
}

void ServerLoop::turn(std::chrono::milliseconds limit) {
  zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
  wait_for(&item, 1, limit);
  renew_after_pause(limit);
  // Not as long as something comes: there is more to do.
  const auto until = Clock::now() + limit;
  Message message;
  bool has_heard_all = false;
  while (!has_heard_all && Clock::now() < until) {
    has_heard_all = !receive(message);
    if (!has_heard_all) answer(message);
  }
  // Else they may have been heard of in what has not been read yet.
  if (has_heard_all) expire();
  // What they begin with at once: who is killed before that comes back without anything.
  const auto wait = is_to_save_soon_ ? std::chrono::milliseconds{0} : options_.save_every;
  if (changed_ && are_whole() && Clock::now() - *changed_ >= wait) try_to_save();
  ended_ = Clock::now();
}

bool ServerLoop::are_whole() const {
  const auto now = Clock::now();
  return std::ranges::all_of(groups_, [&](const auto& one) { return one.second->is_whole(now); });
}

// Stopped for a while, this server has heard of nobody, who may live all the same.
void ServerLoop::renew_after_pause(std::chrono::milliseconds limit) {
  constexpr std::chrono::seconds kPause{1};
  if (Clock::now() - ended_ < limit + kPause) return;
  for (const auto& [id, group] : groups_) group->members().renew(Clock::now());
}

// A disk may be full for a moment, and nothing is wrong with what is in memory.
void ServerLoop::try_to_save() {
  is_to_save_soon_ = false;
  try {
    save();
    problem_.clear();
  } catch (const Error& error) {
    if (std::exchange(problem_, error.what()) != problem_)
      log::warning("parameter server {}: {}; it is tried again", endpoint_, error.what());
    changed_ = Clock::now();
  }
}

void ServerLoop::expire() {
  for (const auto& [id, group] : groups_) {
    const auto gone = group->members().expire(Clock::now());
    for (const int worker : gone)
      log::warning(
          "parameter server {}: nothing was heard of worker {} for {:.1f} s: it is waited for no "
          "more",
          endpoint_, worker, std::chrono::duration<double>(options_.lease).count());
    if (!gone.empty()) group->look_again();
    take_note(*group);
    for (const int worker : gone) died(worker);
  }
}

void ServerLoop::save() {
  // Of a part of what workers begin with nobody can go on.
  if (!changed_ || options_.state_file.empty() || !are_whole()) return;
  save_state(options_, job(), groups_);
  changed_.reset();
  for (const auto& [id, group] : groups_) group->set_on_disk(true);
}

// Tells jobs apart, and does not tell the secret.
std::uint64_t ServerLoop::job() const { return fnv1a(options_.secret); }

void ServerLoop::take_note(Group& group) {
  if (group.take_change() && !changed_) changed_ = Clock::now();
  if (!group.take_beginning()) return;
  is_to_save_soon_ = true;
  if (!group.is_on_disk()) return;
  // A server that came back with it would go on from something else, and nobody would see it.
  std::error_code ignored;  // where it cannot be removed, it cannot be written either
  if (!options_.state_file.empty()) std::filesystem::remove(options_.state_file, ignored);
  for (const auto& [id, other] : groups_) other->set_on_disk(false);
}

void ServerLoop::forget(int worker) {
  for (const auto& [id, group] : groups_) {
    group->members().forget(worker);
    group->look_again();
    take_note(*group);
  }
  died(worker);
}

// Where it has not left before.
void ServerLoop::died(int worker) {
  dead_.insert(worker);
  if (!gone_.contains(worker)) gone(worker, false);
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
  const auto found = groups_.find(header.group);
  if (found != groups_.end()) {
    const int worker = header.worker;
    const Kind kind = header.kind;
    const bool was_there = found->second->members().living().contains(worker);
    found->second->answer(message);
    take_note(*found->second);
    if (kind == Kind::leave || (kind == Kind::fail && was_there)) gone(worker, kind == Kind::leave);
    return;
  }
  // Of a group that a server before this one had. A worker at rest says nothing else; the rest say
  // hello.
  if (header.kind == Kind::leave && is_of_this_job(message)) gone(header.worker, true);
  if (needs_answer(header.kind))
    replies_.send(message.from, {.kind = Kind::unknown, .item = header.item});
}

// Who says the name that has this number with the job's secret knows that.
bool ServerLoop::is_of_this_job(const Message& message) const {
  return !message.parts.empty() &&
         message.header.group == group_of(message.parts[0].to_string_view(), options_.secret);
}

// Whoever was not expected, or has failed, is let in where the others are: in each group at another
// moment.
std::string ServerLoop::too_late(int worker, const std::string& name) const {
  if (options_.staleness < 0) return "";
  const auto own = groups_.find(group_of(name, options_.secret));
  const bool is_begun = own != groups_.end() && !own->second->members().living().empty();
  if (worker < options_.workers && (!is_begun || !failed_.contains(worker))) return "";
  std::set<std::string> names{"'" + name + "'"};
  for (const auto& [id, group] : groups_) {
    const auto living = group->members().living();
    if (group->name() == name && living.contains(worker)) return "";
    if (!living.empty()) names.insert("'" + group->name() + "'");
  }
  if (names.size() < 2) return "";
  return fmt::format(
      "it comes when the others have begun, and they step several things here ({}): with a bound "
      "on staleness it would be waited for in one while it waits in another; expected staleness "
      "-1, or as many workers from the beginning",
      fmt::join(names, ", "));
}

// From one group; perhaps from the last.
void ServerLoop::gone(int worker, bool has_ended_well) {
  for (const auto& [id, group] : groups_) {
    if (group->members().living().contains(worker)) return;
  }
  came_.insert(worker);
  gone_.insert(worker);
  if (!has_ended_well) failed_.insert(worker);
  last_gone_ = Clock::now();
}

// One that leaves a group may be about to begin another; one that has failed may be started again.
bool ServerLoop::is_over() const {
  constexpr std::chrono::seconds kQuiet{2};
  constexpr std::chrono::seconds kRestart{60};
  if (!options_.ends_with_workers || std::ssize(came_) < options_.workers) return false;
  return gone_ == came_ && Clock::now() - last_gone_ > (failed_.empty() ? kQuiet : kRestart);
}

void ServerLoop::hello(Message& message) {
  const Header& header = message.header;
  try {
    const auto said = nlohmann::json::parse(message.parts.at(0).to_string_view());
    if (said.at("secret").get<std::string>() != options_.secret)
      return replies_.refuse(message, "it belongs to another job (SULLAE_JOB_SECRET)");
    const auto name = said.at("group").get<std::string>();
    if (const auto why = too_late(header.worker, name); !why.empty())
      return replies_.refuse(message, why);
    auto& group = groups_[group_of(name, options_.secret)];
    if (group == nullptr) group = Group::make(said, options_, replies_);
    if (group->hello(message, said, dead_)) {
      came_.insert(header.worker);
      gone_.erase(header.worker);
      failed_.erase(header.worker);
      dead_.erase(header.worker);
    }
    take_note(*group);
  } catch (const nlohmann::json::exception& error) {
    replies_.refuse(message, fmt::format("it cannot read the greeting: {}", error.what()));
  } catch (const Error& error) {
    replies_.refuse(message, error.what());
  } catch (const std::out_of_range&) {
    replies_.refuse(message, "a greeting without words");
  } catch (const std::bad_alloc&) {
    replies_.refuse(message, "it has no memory for as much");
  }
  std::erase_if(groups_, [](const auto& one) { return one.second == nullptr; });
}

}  // namespace sullae::ps
