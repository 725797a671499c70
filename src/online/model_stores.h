// The samples and rounds of all models of a repository.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "online/example_writer.h"
#include "online/round_store.h"

namespace sullae::online {

/// The file of a model's folder that holds them.
inline constexpr const char* kExamplesFile = "examples.db";

struct ModelStore {
  explicit ModelStore(const std::filesystem::path& file)
      : examples(file), rounds(file), writer(examples) {}
  ExampleStore examples;
  RoundStore rounds;
  ExampleWriter writer;
};

/// Opens them when they are needed first. Any thread may call it.
class ModelStores {
 public:
  explicit ModelStores(std::filesystem::path repository) : repository_(std::move(repository)) {}

  /// Of a model that is there; of the file that is there now. Throws Error.
  std::shared_ptr<ModelStore> of(const std::string& model);
  /// Null where no samples were ever given.
  std::shared_ptr<ModelStore> find(const std::string& model);
  std::filesystem::path directory_of(const std::string& model) const { return repository_ / model; }

 private:
  struct Place {
    std::mutex mutex;
    std::shared_ptr<ModelStore> store;  // guarded by mutex
  };
  std::shared_ptr<Place> place_of(const std::string& model);

  std::filesystem::path repository_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Place>> places_;  // guarded by mutex_
};

}  // namespace sullae::online
