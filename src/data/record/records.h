// What samples are made of: bytes by number, of a file or from elsewhere.
#pragma once

#include <cstddef>
#include <string>

namespace sullae::data {

/// Rows of a file, frames of one, messages of a topic. Any thread.
class Records {
 public:
  virtual ~Records() = default;
  /// Of all of them, for messages: the file's, say.
  virtual const std::string& name() const = 0;
  virtual std::size_t size() const = 0;
  /// Throws DamagedRecord with place(i) in its message.
  virtual std::string read(std::size_t i) const = 0;
  virtual std::string place(std::size_t i) const = 0;
};

}  // namespace sullae::data
