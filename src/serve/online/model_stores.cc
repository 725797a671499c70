#include "serve/online/model_stores.h"

#include "serve/repository/serving_state.h"
#include "serve/request_error.h"

namespace sullae::serve {

std::shared_ptr<ModelStore> ModelStores::of(const std::string& model) {
  const std::lock_guard lock(mutex_);
  auto& store = stores_[model];
  // Whoever still has the old one keeps it until then.
  if (store && !store->examples.is_in_place()) store.reset();
  if (!store) {
    const auto file = directory_of(model) / kExamplesFile;
    if (const auto way = link_out_of(repository_, file); !way.empty())
      throw RequestError(Refusal::conflict, way);
    store = std::make_shared<ModelStore>(file);
  }
  return store;
}

std::shared_ptr<ModelStore> ModelStores::find(const std::string& model) {
  std::error_code error;
  if (!std::filesystem::exists(directory_of(model) / kExamplesFile, error)) return nullptr;
  return of(model);
}

}  // namespace sullae::serve
