// POST and GET v1/models/<model>/examples.
#pragma once

#include <string>

#include "http/exchange.h"
#include "online/model_stores.h"
#include "serve/model/codec.h"

namespace sullae::serve {

/// Any thread may call it.
class ExamplesApi {
 public:
  /// `stores` must outlive this object.
  explicit ExamplesApi(online::ModelStores& stores) : stores_(stores) {}

  /// Stores what the body of `request` holds, {"examples": [{"text": …, "label": …, "key": …}, …]},
  /// all of it or none, and answers when it is on the disk; for models of images "image": {"b64":
  /// …} stands instead of "text". `codec` is that of the version that answers. A label null takes
  /// back the sample of the key, or of the text or image. Throws RequestError.
  void post(const std::string& model, const Codec& codec, const http::Request& request,
            const std::string& author, const http::Respond& respond);
  /// Samples that have changed after "since" of `query` (0), at most "limit" (1000). Throws
  /// RequestError.
  http::Response get(const std::string& model, const Codec& codec, const std::string& query);

 private:
  online::ModelStores& stores_;
};

}  // namespace sullae::serve
