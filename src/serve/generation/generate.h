// Texts that a served language model goes on with. Each piece is a row of a batch with whatever
// else waits at that moment, so that texts of many clients grow side by side and none waits for
// another's end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/repository/version.h"
#include "train/generation.h"

namespace sullae::serve {

/// The generate extension of the Open Inference Protocol, as KServe and Triton have it:
/// "text_input", and "parameters", which may stand beside it too.
struct GenerateRequest {
  std::string id;
  std::string prompt;
  train::GenerationOptions options;
};
/// `streamed`: whether it is to be answered piece by piece. Throws RequestError (invalid).
GenerateRequest parse_generate_request(const nlohmann::json& body, bool streamed);

struct Generated {
  /// What no GenerationListener::wrote has had: all of it where there is none.
  std::string text;
  std::string finish_reason;
  std::int64_t pieces = 0;
  std::exception_ptr error;
};

/// Hears of a text on its way: one call at a time, in whatever thread.
struct GenerationListener {
  /// The end, or an error.
  std::function<void(const Generated&)> done;
  /// What was written since the last call, as soon as it is there. False: nobody hears it any more,
  /// so that it ends without another call.
  std::function<bool(const std::string&)> wrote = {};
};

/// Texts that are being written. Any thread.
class Generations {
 public:
  /// Ends those that go on, at their next piece, and waits for that.
  ~Generations();

  /// Throws RequestError: invalid where the model writes nothing, overloaded where too many are
  /// written already.
  void start(const std::shared_ptr<Version>& version, const GenerateRequest& request,
             GenerationListener listener);
  /// Those that go on end at their next piece, and are told so: unavailable.
  void end() { ending_ = true; }

 private:
  class One;

  std::mutex mutex_;
  std::condition_variable fewer_;
  std::int64_t count_ = 0;  // guarded by mutex_
  std::atomic<bool> ending_ = false;
};

}  // namespace sullae::serve
