// Ways to move fewer bytes than the values have, for slow links.
//
//   sullae::DistributedOptimizer optimizer(sgd, parameters, {.compression = "float16"});
//
// A policy of one's own is a class and a line:
//
//   class Signs final : public sullae::Compression {
//    public:
//     std::string name() const override { return "signs"; }
//     void allreduce(sullae::Communicator& ranks, float* values, std::size_t count,
//                    sullae::ReduceOp op) override { … }
//   };
//   sullae::register_compression("signs", [](std::string_view) { return std::make_unique<Signs>(); });
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sullae/communicator.h"
#include "sullae/types.h"

namespace sullae {

/// How one tensor, or one bucket, of float32 is reduced. Each has an object of its own on every
/// rank, which may keep state from one step to the next. Used by one thread at a time.
class Compression {
 public:
  virtual ~Compression() = default;
  /// With its parameters; ranks must agree on it.
  virtual std::string name() const = 0;
  /// `values` become the sum or the average over all ranks, or what the policy makes of it; the
  /// same bits on every rank. Every rank calls it with the same count and op. Throws what the
  /// communicator throws.
  virtual void allreduce(Communicator& ranks, float* values, std::size_t count, ReduceOp op) = 0;
};

/// Makes a policy from what stands behind the colon of its name: "0.01" of "topk:0.01". Throws
/// InputError for what it cannot use.
using CompressionMaker = std::function<std::unique_ptr<Compression>(std::string_view parameter)>;

/// Adds a policy, before the first world is made.
void register_compression(std::string name, CompressionMaker maker);

/// "float16" or "bfloat16" (values are rounded before they travel, sums on the way), or
/// "topk:FRACTION" (the largest values of each rank travel; the others are kept and added to the
/// next step's: error feedback, S. U. Stich et al., 2018). Null for "" and "none". Throws
/// InputError for another name, with those that there are.
std::unique_ptr<Compression> make_compression(std::string_view name);
std::vector<std::string> compression_names();

}  // namespace sullae
