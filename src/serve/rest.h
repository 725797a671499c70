// The HTTP interface: which path does what, for whom.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <string>
#include <vector>

#include "serve/access.h"
#include "serve/http/http.h"
#include "serve/online/examples_api.h"
#include "serve/online/online_api.h"
#include "serve/repository/repository.h"

namespace sullae::serve {

/// Open Inference Protocol v2, TensorFlow Serving's predict API, the operators' calls, metrics and the page.
class RestApi final : public HttpHandler {
 public:
  /// All must outlive this object.
  RestApi(Repository& repository, ModelStores& stores, const Access& access)
      : repository_(repository), examples_(stores), online_(stores), access_(access) {}

  void handle(HttpRequest request, Respond respond) override;
  HttpResponse refuse(int status, const std::string& message) override;

 private:
  using Path = std::vector<std::string>;
  // Each answers, or returns false where the path is none of its own.
  bool handle_server(const HttpRequest& request, const Path& path, const Respond& respond);
  bool handle_v2(HttpRequest& request, const Path& path, const Respond& respond);
  bool handle_v1(HttpRequest& request, const Path& path, const Respond& respond);
  void infer(const HttpRequest& request, const std::string& model, const std::string& version,
             const Respond& respond);
  void predict(const HttpRequest& request, const std::string& model, const std::string& version,
               const Respond& respond);
  void operate(const HttpRequest& request, const std::string& model, const std::string& action,
               const Respond& respond);
  void handle_examples(const HttpRequest& request, const std::string& model,
                       const Respond& respond);
  void handle_online(const HttpRequest& request, const std::string& model, const Respond& respond);
  std::string metrics();
  std::string need(const HttpRequest& request, Role role) const;

  Repository& repository_;
  ExamplesApi examples_;
  OnlineApi online_;
  const Access& access_;
  // For what operators ask for. Last, so that it ends first.
  boost::asio::thread_pool operators_{1};
};

}  // namespace sullae::serve
