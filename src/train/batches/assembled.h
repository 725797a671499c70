// Batches that are quickly made where they are needed, without worker threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "train/task.h"

namespace sullae::train {

using Assemble = std::function<Batch(const std::vector<std::size_t>& samples)>;

/// Calls `make` for each batch of the plan when it is asked for.
inline std::unique_ptr<BatchStream> assemble(BatchPlan plan, Assemble make) {
  class Stream final : public BatchStream {
   public:
    Stream(BatchPlan plan, Assemble make) : plan_(std::move(plan)), make_(std::move(make)) {}
    std::optional<Batch> next() override {
      if (next_ == plan_.size()) return std::nullopt;
      const auto start = std::chrono::steady_clock::now();
      Batch batch = make_(plan_[next_++]);
      waited_ += std::chrono::steady_clock::now() - start;
      return batch;
    }
    double seconds_waited() const override {
      return std::chrono::duration<double>(waited_).count();
    }

   private:
    BatchPlan plan_;
    Assemble make_;
    std::size_t next_ = 0;
    std::chrono::steady_clock::duration waited_{};
  };
  return std::make_unique<Stream>(std::move(plan), std::move(make));
}

}  // namespace sullae::train
