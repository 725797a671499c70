// How the launcher and its agents talk through a pair of pipes: frames of {u32 payload bytes, u8
// type, i32 rank, payload}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sullae/error.h"

namespace sullae {

enum class FrameType : std::uint8_t {
  // launcher to agent
  start = 1,  ///< payload: the AgentSpec as JSON
  signal,     ///< rank: who gets it, -1 for all; payload: the signal's number, in decimal
  // agent to launcher
  ready,  ///< the agent runs
  standard_output,
  standard_error,
  started,     ///< payload: the process id, in decimal
  ended,       ///< payload: the wait status, in decimal
  failed,      ///< payload: why the agent cannot go on
  taken_back,  ///< the agent has been asked to end (SIGTERM): its host is wanted for something else
};

struct Frame {
  FrameType type = FrameType::ready;
  std::int32_t rank = -1;
  std::string payload;
};

/// A whole frame, as it travels.
std::string frame_of(FrameType type, std::int32_t rank, std::string_view payload);
/// Writes it; false when the other side is gone.
bool write_frame(int fd, FrameType type, std::int32_t rank, std::string_view payload);

/// What was read is no frame.
class NoFrame : public Error {
 public:
  using Error::Error;
};

/// Collects bytes and hands out frames.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame, if there is one. Throws NoFrame for bytes that are none.
  std::optional<Frame> next();

 private:
  std::string buffer_;
};

}  // namespace sullae
