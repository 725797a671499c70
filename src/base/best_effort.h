// What may fail for a while.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/log.h"
#include "sullae/error.h"

namespace sullae {

/// Writes what a program can do without: a full disk costs a curve its points, and not the training
/// its end. Warns once, until it can write again. Used by one thread.
class BestEffort {
 public:
  /// The option that asked for what is written, and what goes on without it.
  BestEffort(std::string option, std::string what)
      : option_(std::move(option)), what_(std::move(what)) {}

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
      log::warning("{}: {}; {} goes on", option_, error.what(), what_);
  }

 private:
  std::string option_;
  std::string what_;
  bool is_told_ = false;
};

}  // namespace sullae
