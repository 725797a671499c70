// A Membership on trial: what it is told, and what it wanted done.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launch/elastic/membership.h"

namespace sullae::testing {

using namespace elastic;

struct Trial {
  void begin(const Limits& limits, std::vector<Host> hosts) {
    membership_.emplace(limits);
    membership_->set_hosts(std::move(hosts), now_);
    take();
  }
  void take() {
    for (const Action& action : membership_->take_actions()) {
      if (const auto* start = std::get_if<Start>(&action)) started_.push_back(*start);
      if (const auto* stop = std::get_if<Stop>(&action)) stopped_.push_back(stop->worker);
      if (const auto* interrupt = std::get_if<Interrupt>(&action)) {
        ++interrupts_;
        leaving_ = interrupt->leaving;
      }
      if (std::holds_alternative<Abandon>(action)) ++abandoned_;
      if (const auto* form = std::get_if<Form>(&action)) formed_.push_back(*form);
      if (const auto* note = std::get_if<Note>(&action)) notes_.push_back(note->text);
      if (const auto* fail = std::get_if<Fail>(&action)) failure_ = fail->reason;
    }
  }
  void ready(int worker, const std::string& reason = "") {
    membership_->ready(worker, reason, now_);
    take();
  }
  void leaves(int worker) {
    membership_->leaves(worker, now_);
    take();
  }
  void left(int worker) {
    membership_->left(worker, now_);
    take();
  }
  void ended(int worker, Ending ending, const std::string& how = "was killed") {
    membership_->ended(worker, ending, how, now_);
    take();
  }
  void pass(Milliseconds time) {
    now_ += time;
    membership_->tick(now_);
    take();
  }
  std::vector<int> workers() const { return formed_.back().generation.workers; }
  using Workers = std::vector<int>;

  Time now_{};
  std::optional<Membership> membership_;
  std::vector<Start> started_;
  std::vector<int> stopped_;
  int interrupts_ = 0;
  std::vector<int> leaving_;  // by the last of them
  int abandoned_ = 0;
  std::vector<Form> formed_;
  std::vector<std::string> notes_;
  std::string failure_;
};

}  // namespace sullae::testing
