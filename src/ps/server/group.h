// Workers that train one thing on a server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/rule.h"
#include "ps/server/clocks.h"
#include "ps/server/members.h"
#include "ps/server/replies.h"
#include "sullae/ps/server.h"

namespace sullae::ps {

/// Who its members are, and what each of its items is waited for. What the items are, derived
/// classes know. Used by the server's thread.
class Group {
 public:
  /// As the first worker's greeting describes it. Throws nlohmann::json::exception, InputError.
  static std::unique_ptr<Group> make(const nlohmann::json& said, const ServerOptions& options,
                                     Replies replies);
  virtual ~Group() = default;

  const std::string& name() const { return name_; }
  Members& members() { return members_; }
  /// False of a worker that is refused. The first, and the first after all have left, begins for
  /// all but the `dead`.
  bool hello(Message& message, const nlohmann::json& said, const std::set<int>& dead);
  /// Any other message.
  void answer(Message& message);
  /// There may be fewer members.
  void look_again();
  /// Whether what is to be saved has changed since this was asked last.
  bool take_change() { return std::exchange(has_changed_, false); }
  /// Whether it has all that workers begin with, which they give one part after the other: with the
  /// first gradient, or when nothing more has come for a while. Nobody can go on from what was
  /// saved before.
  bool is_whole(Clock::time_point now) const;
  /// Whether it has begun anew since this was asked last.
  bool take_beginning() { return std::exchange(has_begun_anew_, false); }
  /// Whether it is in the server's file as it was saved last.
  bool is_on_disk() const { return is_on_disk_; }
  void set_on_disk(bool is) { is_on_disk_ = is; }

  /// For a file: what to make it of, and restore() it from, after which arrays() are to be filled.
  nlohmann::json description() const;
  void restore(const nlohmann::json& saved, bool same_job);
  virtual std::vector<std::span<std::byte>> arrays() = 0;
  virtual void restored() {}

 protected:
  Group(const nlohmann::json& said, const ServerOptions& options, Replies replies);

  /// Its items as a greeting has them.
  virtual nlohmann::json shape() const = 0;
  /// Null where there is none.
  virtual Clocks* clocks_of(std::uint32_t item) = 0;
  virtual std::vector<std::pair<std::uint32_t, Clocks*>> all_clocks() = 0;
  /// Whether nothing is known of an item before a worker has given it.
  virtual bool needs_values(std::uint32_t item) const = 0;
  /// A gradient: applied, or where there are rounds added to those of others. False where it is
  /// none of this item's.
  virtual bool push(const Message& message) = 0;
  /// The round's gradients, times `scale`.
  virtual void apply_round(std::uint32_t item, float scale) = 0;
  /// What a worker goes on with.
  virtual void give(zmq::message_t& to, const Header& header) = 0;
  /// What a group of this kind alone knows. False of what it does not.
  virtual bool answer_own(Message& message) = 0;
  virtual nlohmann::json numbers() const = 0;
  virtual void restore_numbers(const nlohmann::json& numbers) = 0;

  void note_change() { has_changed_ = true; }
  /// A part of what workers begin with has come.
  void note_beginning();
  const std::set<int>& counted() const { return members_.counted(); }

  Replies replies_;
  Rule rule_;
  int staleness_;

 private:
  struct Waiting {
    zmq::message_t to;
    Header header;
  };

  std::string wrong_with(const nlohmann::json& said) const;
  void begin(const std::set<int>& dead);
  void answer_known(Message& message);
  void hear_step(int worker, std::int64_t step);
  void rest(Message& message);
  void pull(Message& message);
  void begin_to_count(int worker);
  void answer_push(Message& message, Clocks& clocks);
  void query(Message& message, Clocks& clocks);
  void settle(std::uint32_t item);
  void ask_for_values(Message& message);
  bool gives_values(int worker) const;
  std::set<int> met() const;
  void wait_to_go_on(Message& message, const Header& header);
  void release(std::uint32_t item);

  std::string name_;
  std::string id_;  // another one where what it held is lost
  Members members_;
  std::map<int, std::int64_t> steps_;  // the furthest that workers said they are at
  std::map<std::uint32_t, std::vector<Waiting>> waiting_;  // by item
  bool has_changed_ = true;                                // it is new
  bool is_whole_ = false;
  bool has_begun_anew_ = true;
  bool is_on_disk_ = false;
  bool is_of_file_ = false;                 // and nobody has joined since
  Clock::time_point given_ = Clock::now();  // the last part of what workers begin with
};

}  // namespace sullae::ps
