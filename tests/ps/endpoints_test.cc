// How workers find their servers.
#include "ps/endpoints.h"

#include <gtest/gtest.h>

#include "support/environment.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

using Endpoints = std::vector<std::string>;

TEST(PsEndpoints, ComeFromTheEnvironment) {
  const std::string config =
      R"({"cluster": {"worker": ["a:1"], "ps": ["b:2", "c:3"]}, "task": {"type": "worker", "index": 0}})";
  const auto tensorflow = environment_of({{"TF_CONFIG", config}});
  EXPECT_TRUE(ps::has_servers(tensorflow));
  EXPECT_EQ(ps::find_endpoints(tensorflow), (Endpoints{"tcp://b:2", "tcp://c:3"}));
  const auto named = environment_of({{"SULLAE_PS_SERVERS", "tcp://d:4"}, {"TF_CONFIG", config}});
  EXPECT_EQ(ps::find_endpoints(named), Endpoints{"tcp://d:4"}) << "what is said to Sullae counts";
  for (const auto& without :
       {environment_of({}),
        environment_of(
            {{"TF_CONFIG",
              R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})"}})}) {
    EXPECT_FALSE(ps::has_servers(without));
    EXPECT_EQ(ps::find_endpoints(without), Endpoints());
  }
}

// Workers look for it where it was, if they know.
TEST(PsEndpoints, AreAServersOwnAlsoWhereItWasKilledBeforeItSaidThem) {
  const StoreServer server(StoreAddress::parse("127.0.0.1:0"));
  const auto environment =
      environment_of({{"SULLAE_STORE", "127.0.0.1:" + std::to_string(server.port())}});
  const ps::Registration registration(environment, 0);
  EXPECT_EQ(registration.where(), "tcp://*:*");
  EXPECT_EQ(registration.where(), "tcp://*:*");
  registration.publish("tcp://0.0.0.0:4711", "");
  EXPECT_EQ(registration.where(), "tcp://*:4711");
}

}  // namespace
}  // namespace sullae::testing
