// POST and GET v1/models/<model>/examples.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/http/http.h"
#include "serve/model/codec.h"
#include "serve/online/example_writer.h"

namespace sullae::serve {

/// The samples of all models of a repository, in <model>/examples.db. Any thread may call it.
class ExamplesApi {
 public:
  explicit ExamplesApi(std::filesystem::path repository) : repository_(std::move(repository)) {}

  /// Stores what `body` holds, {"examples": [{"text": …, "label": …, "key": …}, …]}, all of it or none, and answers when it is
  /// on the disk. `codec` is that of the version that answers. Throws RequestError.
  void post(const std::string& model, const Codec& codec, const std::string& body,
            const std::string& author, const Respond& respond);
  /// Samples that have changed after "since" of `query` (0), at most "limit" (1000). Throws RequestError.
  HttpResponse get(const std::string& model, const std::string& query);

 private:
  struct Samples {
    explicit Samples(const std::filesystem::path& file) : store(file), writer(store) {}
    ExampleStore store;
    ExampleWriter writer;
  };
  Samples& of(const std::string& model);

  std::filesystem::path repository_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Samples>> samples_;  // guarded by mutex_
};

}  // namespace sullae::serve
