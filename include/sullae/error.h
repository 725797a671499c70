// The exceptions that Sullae throws. All derive from sullae::Error.
#pragma once

#include <stdexcept>
#include <string>

namespace sullae {

/// The root of every exception thrown by Sullae. `what()` says where, what happened, and what was
/// expected.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A wait ended before its event came. The message names the wait, its limit, and the setting that
/// changes it.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// Another rank died, left, or failed in the middle of a collective.
class PeerError : public Error {
 public:
  PeerError(int rank, const std::string& message) : Error(message), rank_(rank) {}
  /// The rank that is gone.
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Ranks called different collectives, or the same with different sizes, types, operations or
/// roots.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A file, flag, variable or argument that cannot be used as it is.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint that is missing, torn, damaged or of another version. One that is whole but belongs
/// to another model is a plain InputError.
class CheckpointError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace sullae
