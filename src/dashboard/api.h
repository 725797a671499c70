// What a client may ask for: paths, who may, and what answers.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "dashboard/catalogue.h"
#include "dashboard/cluster_view.h"
#include "dashboard/histories.h"
#include "http/access.h"
#include "http/origin.h"
#include "http/responses.h"

namespace sullae::dashboard {

/// Any thread may call it.
class Api final : public http::JsonHandler {
 public:
  Api(const std::filesystem::path& folder, http::Access access, http::KnownHosts hosts);
  /// Ends what is being answered.
  ~Api() override;

  void handle(http::Request request, http::Respond respond) override;

 private:
  using Answer = std::function<nlohmann::json(const std::string& query)>;
  void check(const http::Request& head) const override;
  void answer(const http::Request& request, const http::Respond& respond);
  nlohmann::json overview();
  /// What the engine said last; who asks for runs does not wait for its next word.
  std::shared_ptr<const ClusterState> known_jobs();

  http::Access access_;
  http::KnownHosts hosts_;
  ClusterView cluster_;
  Catalogue catalogue_;
  Histories histories_;
  std::map<std::string, Answer> answers_;  // by the path behind /api/
  std::atomic<bool> is_asking_ = false;
  boost::asio::thread_pool workers_{4};
  boost::asio::thread_pool engine_{2};  // what waits for it, which may take long
};

}  // namespace sullae::dashboard
