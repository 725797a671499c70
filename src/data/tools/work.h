// Work on the parts of a data set in several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace sullae::data {

/// Told how many samples are done, now and then, from one thread.
using ShowProgress = std::function<void(std::size_t done)>;

/// Calls do_part(i, done) for parts 0 to parts - 1 in `threads` threads; what a part has done it adds to
/// `done`. Ends early when one throws, and throws that.
void work_in_parallel(
    std::size_t parts, std::size_t threads, const ShowProgress& show,
    const std::function<void(std::size_t part, std::atomic<std::size_t>& done)>& do_part);

}  // namespace sullae::data
