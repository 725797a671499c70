// What tools that write of a data set have in common: work on its parts in several threads, and
// where they may write.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

namespace sullae::data {

/// Throws InputError, which names --output, where `output` is the folder of a file that `paths`
/// stand for: it would be read with the next time.
void check_not_read(const std::vector<std::filesystem::path>& paths,
                    const std::filesystem::path& output);

/// Told how many samples are done, now and then, from one thread.
using ShowProgress = std::function<void(std::size_t done)>;

/// Calls do_part(i, done) for parts 0 to parts - 1 in `threads` threads; what a part has done it
/// adds to `done`. Ends early when one throws, and throws that.
void work_in_parallel(
    std::size_t parts, std::size_t threads, const ShowProgress& show,
    const std::function<void(std::size_t part, std::atomic<std::size_t>& done)>& do_part);

}  // namespace sullae::data
