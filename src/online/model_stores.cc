#include "online/model_stores.h"

#include "base/request_error.h"
#include "repository/versions.h"

namespace sullae::online {

std::shared_ptr<ModelStore> ModelStores::of(const std::string& model) {
  const auto place = place_of(model);
  // Of this model alone: opening waits for locks of other processes.
  const std::lock_guard lock(place->mutex);
  auto& store = place->store;
  // Whoever still has the old one keeps it until then.
  if (store && !store->examples.is_in_place()) {
    store->examples.expect_no_old_log();
    store.reset();
  }
  if (!store) {
    const auto file = directory_of(model) / kExamplesFile;
    if (const auto way = repository::link_out_of(repository_, file); !way.empty())
      throw RequestError(Refusal::conflict, way);
    store = std::make_shared<ModelStore>(file);
  }
  return store;
}

std::shared_ptr<ModelStores::Place> ModelStores::place_of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  auto& place = places_[model];
  if (!place) place = std::make_shared<Place>();
  return place;
}

std::shared_ptr<ModelStore> ModelStores::find(const std::string& model) {
  std::error_code error;
  if (!std::filesystem::exists(directory_of(model) / kExamplesFile, error)) return nullptr;
  return of(model);
}

}  // namespace sullae::online
