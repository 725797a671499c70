#include "serve/repository/version.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/request_error.h"

namespace sullae::serve {
namespace {

std::uint64_t nanoseconds(Clock::duration duration) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(duration).count());
}

}  // namespace

Version::Version(std::string model_name, std::int64_t number,
                 const std::filesystem::path& directory, const ModelConfig& config)
    : model_name_(std::move(model_name)),
      number_(number),
      timeout_(config.timeout),
      model_(directory, config),
      cache_memory_(static_cast<std::size_t>(config.kv_cache_megabytes) << 20) {
  model_.warm_up();
  model_.check_golden();
  batcher_ = std::make_unique<Batcher>(
      BatcherOptions{.max_batch_size = model_.max_batch_size(),
                     .max_queue_delay = config.max_queue_delay,
                     .max_queue_size = config.max_queue_size,
                     .timeout = config.timeout,
                     .instances = instances_of(config)},
      [this](const std::vector<const Rows*>& rows) { return model_.run(rows); });
}

void Version::check_outputs(const InferRequest& request) const {
  const auto& outputs = model_.codec().outputs();
  if (outputs.empty()) return;
  for (const auto& name : request.outputs) {
    if (std::ranges::none_of(outputs, [&](const auto& output) { return output.name == name; }))
      refuse(fmt::format("there is no output '{}'", name));
  }
}

void Version::check_rows(std::int64_t rows) const {
  if (model_.codec().is_batched() && rows > model_.max_batch_size())
    refuse(fmt::format("{} rows, expected at most {} in a request", rows, model_.max_batch_size()));
}

// Before they are decoded, which takes far more memory than they did on their way.
void Version::check_rows(const InferRequest& request) const {
  for (const InferTensor& input : request.inputs) {
    if (input.datatype == Datatype::bytes) {
      check_rows(static_cast<std::int64_t>(input.strings.size()));
    } else if (!input.shape.empty()) {
      check_rows(input.shape.front());
    }
  }
}

void Version::infer(const std::shared_ptr<Version>& self, InferRequest request, Done done,
                    Clock::time_point arrived) {
  const auto start = Clock::now();
  try {
    if (start > arrived + self->timeout_)
      throw RequestError(
          Refusal::timeout,
          fmt::format("waited for more than {} ms (timeout_milliseconds)", self->timeout_.count()));
    self->check_outputs(request);
    self->check_rows(request);
    Rows rows = self->model_.codec().decode(request, arrived + self->timeout_);
    const auto count = rows.count;
    const auto decoded = Clock::now() - start;
    if (count == 0) refuse("the request has no rows");
    // Shared, because a failed submit must still be able to answer.
    const auto answer = std::make_shared<Done>(std::move(done));
    done = [answer](Result result) {
      (*answer)(std::move(result));
    };
    self->batcher_->submit(std::move(rows),
                           [self, start, decoded, count, answer,
                            request = std::move(request)](Batcher::Outcome outcome) mutable {
                             if (!outcome.error) self->metrics_.input_ns += nanoseconds(decoded);
                             self->count_batch(outcome.timing, count, !outcome.error);
                             Result result = self->finish(std::move(outcome), request);
                             self->count_request(Clock::now() - start, !result.error);
                             (*answer)(std::move(result));
                           });
  } catch (const std::exception&) {  // libtorch's, or of memory, too
    ++self->metrics_.failure;
    self->metrics_.failure_ns += nanoseconds(Clock::now() - start);
    done({.response = {}, .error = std::current_exception()});
  }
}

void Version::submit(Rows rows, Batcher::Done done) {
  const auto count = rows.count;
  batcher_->submit(
      std::move(rows),
      [this, count, done = std::move(done)](Batcher::Outcome outcome) {
        count_batch(outcome.timing, count, !outcome.error);
        done(std::move(outcome));
      },
      Batcher::Admission::given);
}

std::shared_ptr<void> Version::admit() {
  const auto most = model_.config().max_queue_size;
  if (++going_on_ > most) {
    --going_on_;
    ++metrics_.failure;
    throw RequestError(Refusal::overloaded,
                       fmt::format("{} texts go on already, which is as many as may "
                                   "(max_queue_size): try again later",
                                   most));
  }
  return {&going_on_, [](std::atomic<std::int64_t>* count) {
            --*count;
          }};
}

void Version::count_batch(const Timing& timing, std::int64_t rows, bool succeeded) {
  if (timing.first_of_batch) metrics_.count_batch(timing.batch_rows);
  if (!succeeded) return;
  metrics_.queue_ns += nanoseconds(timing.queue);
  metrics_.infer_ns += nanoseconds(timing.compute);
  metrics_.rows += static_cast<std::uint64_t>(rows);
}

void Version::count_request(Clock::duration took, bool succeeded) {
  ++(succeeded ? metrics_.success : metrics_.failure);
  (succeeded ? metrics_.request_ns : metrics_.failure_ns) += nanoseconds(took);
  metrics_.latency.add(took);
}

Version::Result Version::finish(Batcher::Outcome outcome, const InferRequest& request) {
  Result result{.response = {.model_name = model_name_,
                             .model_version = std::to_string(number_),
                             .outputs = {}},
                .error = outcome.error};
  if (result.error) return result;
  const auto start = Clock::now();
  try {
    result.response.outputs = model_.codec().encode(outcome.outputs);
    for (const auto& name : request.outputs) {
      if (std::ranges::find(result.response.outputs, name, &InferTensor::name) ==
          result.response.outputs.end())
        refuse(fmt::format("there is no output '{}'", name));
    }
    if (!request.outputs.empty()) {
      std::erase_if(result.response.outputs, [&](const InferTensor& output) {
        return std::ranges::find(request.outputs, output.name) == request.outputs.end();
      });
    }
  } catch (const std::exception&) {
    result.error = std::current_exception();
  }
  metrics_.output_ns += nanoseconds(Clock::now() - start);
  return result;
}

}  // namespace sullae::serve
