// The HTTP interface: what each call does.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/access.h"
#include "serve/http/http.h"
#include "serve/http/origin.h"
#include "serve/online/examples_api.h"
#include "serve/online/online_api.h"
#include "serve/repository/repository.h"
#include "serve/routes.h"

namespace sullae::serve {

/// Open Inference Protocol v2, TensorFlow Serving's predict API, the operators' calls, metrics and the page.
class RestApi final : public HttpHandler {
 public:
  /// All must outlive this object. `hosts` are names that this server goes by, where there are no tokens.
  RestApi(Repository& repository, ModelStores& stores, const Access& access,
          const std::vector<std::string>& hosts);

  std::optional<HttpResponse> refuse_early(const HttpRequest& head) override;
  void handle(HttpRequest request, Respond respond) override;
  HttpResponse refuse(int status, const std::string& message) override;
  void gave_up(std::size_t bytes) override;

 private:
  /// A request that may be answered.
  struct Asked {
    HttpRequest request;
    Match match;
    std::string author;
    Clock::time_point arrived = Clock::now();
  };
  using AskedPointer = std::shared_ptr<const Asked>;

  void check_head(const HttpRequest& head) const;
  // In a thread that reads requests: nothing that takes long.
  void answer(const AskedPointer& asked, const Respond& respond);
  // In a thread that may wait.
  HttpResponse answer_slowly(const Asked& asked);
  void compute(const Asked& asked, const Respond& respond);
  void infer(const Asked& asked, const Respond& respond);
  void predict(const Asked& asked, const Respond& respond);
  HttpResponse change(const Asked& asked);
  static HttpResponse counted(const Asked& asked, HttpResponse response);
  std::string metrics();

  Repository& repository_;
  ExamplesApi examples_;
  OnlineApi online_;
  const Access& access_;
  KnownHosts hosts_;
  // Last, so that they end first: what operators ask for, which may load a model; what reads from the disk; what
  // writes there, which waits for others' locks; requests that take long to read.
  boost::asio::thread_pool operators_{4};
  boost::asio::thread_pool disk_{4};
  boost::asio::thread_pool writers_{4};
  boost::asio::thread_pool large_;
  // Apart from those: some hundred bytes of a picture can take as long as megabytes of numbers.
  boost::asio::thread_pool images_;
};

}  // namespace sullae::serve
