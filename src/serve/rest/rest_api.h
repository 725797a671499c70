// The HTTP interface: who may ask for what, and which route answers.
#pragma once

#include "http/access.h"
#include "http/origin.h"
#include "http/responses.h"
#include "serve/generation/generate.h"
#include "serve/repository/repository.h"
#include "serve/rest/router.h"
#include "serve/rest/workers.h"
#include "serve/samples/examples_api.h"
#include "serve/samples/online_api.h"

namespace sullae::serve {

/// Open Inference Protocol v2, TensorFlow Serving's predict API, the operators' calls, metrics and
/// the page.
class RestApi final : public http::JsonHandler {
 public:
  /// All must outlive this object. `hosts` are names that this server goes by, where there are no
  /// tokens.
  RestApi(Repository& repository, online::ModelStores& stores, Generations& generations,
          const http::Access& access, http::KnownHosts hosts);

  void handle(http::Request request, http::Respond respond) override;
  void gave_up(std::size_t bytes) override;

  const Router& router() const { return router_; }

 private:
  void check(const http::Request& head) const override;

  Repository& repository_;
  ExamplesApi examples_;
  OnlineApi online_;
  const http::Access& access_;
  http::KnownHosts hosts_;
  Router router_;
  Workers workers_;  // last, so that they end first
};

}  // namespace sullae::serve
