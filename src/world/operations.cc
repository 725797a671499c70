// What a world is asked for, on its way to the engine, the queue, or the messages.
#include <fmt/format.h>

#include "collective/reduce/reduce.h"
#include "engine/scale.h"
#include "sullae/compression.h"
#include "world/world_impl.h"

namespace sullae {
namespace {

void check_compressible(const Signature& signature, const engine::Submission& submission) {
  const bool sums = signature.op == ReduceOp::sum || signature.op == ReduceOp::average;
  if (signature.operation != Operation::allreduce || signature.type != DataType::float32 || !sums ||
      !submission.request.sizes.empty()) {
    throw InputError(fmt::format(
        "compression is for an allreduce of one float32 tensor, sum or average, not for {}",
        signature.describe()));
  }
}

}  // namespace

std::shared_ptr<Completion> World::Impl::start_message(
    const std::function<void(messages::Group&, messages::Group::Finished)>& start) {
  check_joined();
  failure_->check();
  auto completion = std::make_shared<Completion>();
  start(*messages_, [this, completion](const std::exception_ptr& error, int source) {
    std::exception_ptr final_error;
    try {
      if (error) guarded([&] { std::rethrow_exception(error); });
    } catch (...) {  // goes to whoever waits
      final_error = std::current_exception();
    }
    completion->set_source(source);
    completion->finish(final_error);
  });
  return completion;
}

std::function<void()> World::Impl::planned_operation(std::function<void(Communicator&)> call,
                                                     const PlannedOptions& options) {
  check_joined();
  auto labelled = [this, call = std::move(call), options] {
    guarded([&] {
      planned().set_label(options.name, options.plan, options.turn);
      call(planned());
    });
  };
  if (!timeline_.on()) return labelled;
  return
      [this, labelled = std::move(labelled), options, submitted = engine::Timeline::Clock::now()] {
        timeline_.record({engine::Lane::planned, "QUEUE", options.name, submitted,
                          engine::Timeline::Clock::now(), options.bytes});
        const engine::Span span(timeline_, engine::Lane::planned, "REDUCE_BUCKET", options.name,
                                options.bytes);
        labelled();
      };
}

std::shared_ptr<Completion> World::Impl::submit(std::function<void(Communicator&)> call,
                                                const PlannedOptions& options) {
  auto completion = std::make_shared<Completion>();
  queue().submit(planned_operation(std::move(call), options), completion);
  return completion;
}

void World::Impl::run_planned(std::function<void(Communicator&)> call,
                              const PlannedOptions& options) {
  queue().run(planned_operation(std::move(call), options),
              [this] { fail(std::current_exception()); });
}

std::shared_ptr<Completion> World::Impl::submit(Signature signature, const AsyncOptions& options,
                                                engine::Submission submission) {
  check_joined();
  if (signature.operation == Operation::allreduce) {
    reduction::check_supported(signature.type, signature.op);
  } else {
    reduction::check_elementwise(signature.type, signature.op);
  }
  if (options.prescale != 1.0 || options.postscale != 1.0) engine::check_scalable(signature.type);
  if (options.compression) check_compressible(signature, submission);
  engine::Request& request = submission.request;
  request.name = options.name;
  if (request.name.empty()) {
    const auto number = unnamed_[static_cast<std::size_t>(signature.operation)]++;
    request.name =
        fmt::format("{}{}{}", name(signature.operation), engine::Request::kUnnamed, number);
  }
  request.signature = signature;
  request.prescale = options.prescale;
  request.postscale = options.postscale;
  request.shape = options.shape;
  request.joined_too = options.joined_too;
  if (options.compression) request.compression = options.compression->name();
  submission.compression = options.compression;
  if (timeline_.on()) submission.submitted = engine::Timeline::Clock::now();
  auto completion = submission.completion;
  engine().submit(std::make_unique<engine::Submission>(std::move(submission)));
  return completion;
}

void World::Impl::check_root(int root) const {
  if (root < 0 || root >= topology_.size) {
    throw InputError(
        fmt::format("root {}: expected a rank between 0 and {}", root, topology_.size - 1));
  }
}

void World::Impl::check_counts(std::span<const std::size_t> counts) const {
  if (counts.size() != static_cast<std::size_t>(topology_.size)) {
    throw InputError(fmt::format("{} counts for {} ranks: expected one count a rank", counts.size(),
                                 topology_.size));
  }
}

}  // namespace sullae
