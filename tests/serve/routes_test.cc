#include "serve/routes.h"

#include <gtest/gtest.h>

#include <set>

#include "serve/request_error.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace sullae::serve;

Match find(const std::string& method, const std::string& path) {
  HttpRequest head;
  head.method = method;
  head.path = path;
  return find_route(head);
}

// Any path that a pattern stands for.
std::string example_of(std::string_view pattern) {
  std::string path = "/" + std::string(pattern);
  for (const std::string name : {"{model}", "{version}"}) {
    if (const auto at = path.find(name); at != std::string::npos)
      path.replace(at, name.size(), name == "{model}" ? "m" : "3");
  }
  return path;
}

TEST(Routes, EachIsFoundByItsPathAndMethodAndNoOther) {
  std::set<std::pair<std::string, std::string_view>> seen;
  for (const Route& route : routes()) {
    const auto path = example_of(route.pattern);
    EXPECT_TRUE(seen.insert({path, route.method}).second) << path << " is there twice";
    const Match match = find(std::string(route.method), path);
    EXPECT_EQ(match.route.call, route.call) << path;
    EXPECT_EQ(match.route.role, route.role) << path;
    EXPECT_EQ(match.model, route.pattern.find("{model}") == std::string::npos ? "" : "m");
    EXPECT_EQ(match.version, route.pattern.find("{version}") == std::string::npos ? "" : "3");
    EXPECT_TRUE(contains(error_of([&] { find("PATCH", path); }), "expected "));
    EXPECT_TRUE(contains(error_of([&] { find(std::string(route.method), path + "/x/x/x/x"); }),
                         "there is nothing at"));
  }
}

// Nobody without a token changes anything or sees what is served.
TEST(Routes, OnlyThePageAndHealthNeedNoRole) {
  for (const Route& route : routes()) {
    const bool changes = route.method == "POST" && route.role != Role::infer;
    if (changes) {
      EXPECT_TRUE(route.role == Role::operate || route.call == Call::repository_index)
          << route.pattern;
    }
    EXPECT_TRUE(route.role != Role::none || route.method == "GET") << route.pattern;
  }
}

TEST(Routes, NamesAreDecodedAndSlashesRunTogether) {
  EXPECT_EQ(find("GET", "//v2//models/a%20b/").model, "a b");
  EXPECT_EQ(find("HEAD", "/v2/models/m").route.call, Call::model_metadata);
  EXPECT_EQ(find("GET", "/v2/models/%ED%95%9C").model, "한");
}

}  // namespace
}  // namespace sullae::testing
