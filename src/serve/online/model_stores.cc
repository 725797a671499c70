#include "serve/online/model_stores.h"

namespace sullae::serve {

ModelStore& ModelStores::of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  auto& store = stores_[model];
  if (!store) store = std::make_unique<ModelStore>(directory_of(model) / kExamplesFile);
  return *store;
}

ModelStore* ModelStores::find(const std::string& model) {
  if (!std::filesystem::exists(directory_of(model) / kExamplesFile)) return nullptr;
  return &of(model);
}

}  // namespace sullae::serve
