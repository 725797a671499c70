// What a timeline's file says, in short.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace sullae {

/// Times in microseconds.
struct TimelineSummary {
  struct Rank {
    double planned = 0;     ///< gradients being reduced
    double negotiated = 0;  ///< operations of the engine
    double blocking = 0;    ///< in blocking collectives
    double backward = 0;    ///< from the first gradient to the last
    double waiting = 0;     ///< for gradients, after backward
    double stages = 0;      ///< in stages of a pipeline
    double pipeline = 0;    ///< in a pipeline's steps
    int last = 0;           ///< how often this rank was the last to come
    double lost = 0;        ///< by waiting for ranks that came later
    /// The share of `planned` that backward hid.
    double hidden() const;
    /// The share of `pipeline` in which no stage computed.
    double bubble() const;
  };
  struct Tensor {
    std::string phase;
    std::string name;
    int count = 0;
    double total = 0;  ///< on the slowest rank
  };
  std::map<int, Rank> ranks;
  std::vector<Tensor> slowest;  ///< slowest first
  int meetings = 0;             ///< operations that all ranks came to
};

/// Throws InputError, with the file's name, for a file that is no timeline.
TimelineSummary summarize_timeline(const std::filesystem::path& file);
std::string format_summary(const TimelineSummary& summary);

}  // namespace sullae
