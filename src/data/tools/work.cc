#include "data/tools/work.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "base/thread_group.h"
#include "storage/storage.h"
#include "sullae/data/dataset.h"

namespace sullae::data {

void check_not_read(const std::vector<std::filesystem::path>& paths,
                    const std::filesystem::path& output) {
  const auto is_same = [&](const std::filesystem::path& folder) {
    std::error_code error;
    return storage::is_remote(output) || storage::is_remote(folder)
               ? storage::absolute(folder) == storage::absolute(output)
               : std::filesystem::equivalent(folder.empty() ? "." : folder, output, error);
  };
  const auto check = [&](const std::filesystem::path& folder) {
    if (is_same(folder))
      throw InputError(
          fmt::format("--output {}: holds what is read: expected another folder", output.string()));
  };
  for (const auto& path : paths) check(path);
  for (const auto& file : find_part_files(paths)) check(file.parent_path());
}

void work_in_parallel(
    std::size_t parts, std::size_t threads, const ShowProgress& show,
    const std::function<void(std::size_t part, std::atomic<std::size_t>& done)>& do_part) {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> done = 0;
  std::mutex mutex;  // guards the next three
  std::condition_variable ended;
  std::exception_ptr failure;
  std::size_t working = threads;
  const auto work = [&] {
    try {
      for (std::size_t part = next++; part < parts; part = next++) do_part(part, done);
    } catch (...) {
      next = parts;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    --working;
    ended.notify_one();
  };
  ThreadGroup workers([&] { next = parts; });
  for (std::size_t i = 0; i < threads; ++i) workers.start(work);
  {
    constexpr std::chrono::milliseconds kShow{200};
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, kShow, [&] { return working == 0; })) {
      lock.unlock();
      show(done);
      lock.lock();
    }
  }
  workers.stop();
  show(done);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sullae::data
