#include "ps/server/loop.h"

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <utility>

#include "base/copy.h"
#include "base/hash.h"
#include "base/log.h"
#include "ps/server/state_file.h"

namespace sullae::ps {
namespace {

// Larger than any message of a worker's: what is larger is not one.
constexpr std::int64_t kMostBytes = kMostPart + (std::int64_t{1} << 20);

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
    // Without a secret there is no telling whether members are of this job.
    for (auto& group : load_state(options_, job(), replies_))
      groups_.emplace(fnv1a(group->name()), std::move(group));
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
  if (has_heard_all) expire();
  if (changed_ && Clock::now() - *changed_ >= options_.save_every) save();
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
  }
}

void ServerLoop::save() {
  if (!changed_ || options_.state_file.empty()) return;
  save_state(options_, job(), groups_);
  changed_.reset();
}

// Tells jobs apart, and does not tell the secret.
std::uint64_t ServerLoop::job() const { return std::hash<std::string>{}(options_.secret); }

void ServerLoop::take_note(Group& group) {
  if (group.take_change() && !changed_) changed_ = Clock::now();
}

void ServerLoop::forget(int worker) {
  ended_.insert(worker);
  for (const auto& [id, group] : groups_) {
    group->members().forget(worker);
    group->look_again();
    take_note(*group);
  }
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
    const bool leaves = header.kind == Kind::leave;
    found->second->answer(message);
    take_note(*found->second);
    if (leaves) take_leave(worker);
    return;
  }
  // A worker at rest has a group's items from its others; the rest say hello.
  const bool needs_no_answer = header.kind == Kind::alive || header.kind == Kind::alive_at_rest ||
                               header.kind == Kind::leave;
  if (!needs_no_answer) replies_.send(message.from, {.kind = Kind::unknown, .item = header.item});
}

void ServerLoop::take_leave(int worker) {
  for (const auto& [id, group] : groups_) {
    if (group->members().living().contains(worker)) return;
  }
  left_.insert(worker);
  if (std::ssize(left_) >= options_.workers) all_left_ = Clock::now();
}

// One that leaves a group may be about to begin another.
bool ServerLoop::is_over() const {
  constexpr std::chrono::seconds kQuiet{2};
  return options_.ends_with_workers && all_left_ && Clock::now() - *all_left_ > kQuiet;
}

void ServerLoop::hello(Message& message) {
  const Header& header = message.header;
  try {
    const auto said = nlohmann::json::parse(message.parts.at(0).to_string_view());
    if (said.at("secret").get<std::string>() != options_.secret)
      return replies_.refuse(message, "it belongs to another job (SULLAE_JOB_SECRET)");
    ended_.erase(header.worker);
    left_.erase(header.worker);
    all_left_.reset();
    auto& group = groups_[fnv1a(said.at("group").get<std::string>())];
    if (group == nullptr) {
      auto made = Group::make(said, options_, replies_);
      for (const int worker : ended_) made->members().forget(worker);
      group = std::move(made);
    }
    group->hello(message, said);
    take_note(*group);
  } catch (const nlohmann::json::exception& error) {
    replies_.refuse(message, fmt::format("it cannot read the greeting: {}", error.what()));
  } catch (const Error& error) {
    replies_.refuse(message, error.what());
  } catch (const std::out_of_range&) {
    replies_.refuse(message, "a greeting without words");
  }
  std::erase_if(groups_, [](const auto& one) { return one.second == nullptr; });
}

}  // namespace sullae::ps
