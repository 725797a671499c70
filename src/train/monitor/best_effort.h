#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/log.h"
#include "sullae/error.h"

namespace sullae::train {

/// Writes what a training can do without: a full disk costs a curve its points, and not the training its end. Warns once, until
/// it can write again. Used by one thread.
class BestEffort {
 public:
  /// The option that asked for what is written.
  explicit BestEffort(std::string option) : option_(std::move(option)) {}

  /// Throws InputError alone.
  void run(const std::function<void()>& part) {
    try {
      part();
      is_told_ = false;
    } catch (const InputError&) {
      throw;
    } catch (const Error& error) {
      tell(error);
    }
  }

  void tell(const Error& error) {
    if (!std::exchange(is_told_, true))
      log::warning("{}: {}; the training goes on", option_, error.what());
  }

 private:
  std::string option_;
  bool is_told_ = false;
};

}  // namespace sullae::train
