#include "online/example_writer.h"

#include <fmt/format.h>

#include <utility>

#include "base/request_error.h"

namespace sullae::online {
namespace {

constexpr std::size_t kMostWaiting = 1000;

}  // namespace

ExampleWriter::ExampleWriter(ExampleStore& store) : store_(store), thread_([this] { write(); }) {}

ExampleWriter::~ExampleWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  filled_.notify_all();
  thread_.join();
}

void ExampleWriter::put(std::vector<Example> examples, std::string author, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kMostWaiting)
      throw RequestError(
          Refusal::overloaded,
          fmt::format("{} requests with examples wait already: try again later", queue_.size()));
    queue_.push_back({{std::move(examples), std::move(author)}, std::move(done)});
  }
  filled_.notify_one();
}

void ExampleWriter::write() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::deque<Work> batch = std::exchange(queue_, {});
    lock.unlock();
    std::vector<ExampleChange> changes;
    for (Work& work : batch) changes.push_back(std::move(work.change));
    std::vector<StoreResult> results(batch.size());
    std::exception_ptr error;
    try {
      results = store_.put(changes);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].done(results[i], error);
    lock.lock();
  }
}

}  // namespace sullae::online
