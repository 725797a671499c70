// Tells people, or programs, what becomes of a run.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "pipeline/definition.h"
#include "pipeline/record.h"

namespace sullae::pipeline {

/// Runs the command and posts to the webhook that the pipeline has, one after the other in a thread
/// of its own: whoever does not answer holds up no step. A minute each at most
/// (SULLAE_PIPELINE_TELL_TIMEOUT). What goes wrong there is logged, and changes nothing about the
/// run. Used by one thread.
class Teller {
 public:
  /// `pipeline` outlives this object.
  explicit Teller(const Pipeline& pipeline) : pipeline_(pipeline) {}
  /// Waits until all is told.
  ~Teller();
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  /// What the pipeline wants to be told of, and nothing else.
  void tell(const std::string& event, const std::string& message, const RunRecord& run);

 private:
  struct Told {
    std::string event;
    std::string message;
    Time scheduled;
    std::string text;  ///< of the run, JSON
  };
  void tell_all();
  void tell(const Told& told) const;

  const Pipeline& pipeline_;
  std::mutex mutex_;  // guards:
  std::condition_variable changed_;
  std::deque<Told> waiting_;
  bool is_over_ = false;
  std::thread thread_;  // begins with the first
};

}  // namespace sullae::pipeline
