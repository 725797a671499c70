#include "serve/online/model_stores.h"

namespace sullae::serve {

std::shared_ptr<ModelStore> ModelStores::of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  auto& store = stores_[model];
  // Whoever still has the old one keeps it until then.
  if (store && !store->examples.is_in_place()) store.reset();
  if (!store) store = std::make_shared<ModelStore>(directory_of(model) / kExamplesFile);
  return store;
}

std::shared_ptr<ModelStore> ModelStores::find(const std::string& model) {
  std::error_code error;
  if (!std::filesystem::exists(directory_of(model) / kExamplesFile, error)) return nullptr;
  return of(model);
}

}  // namespace sullae::serve
