#include <gtest/gtest.h>

#include <set>

#include "base/request_error.h"
#include "serve/rest/rest_api.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace sullae::serve;

/// The table of a server without models.
class Routes : public ::testing::Test {
 protected:
  Match find(const std::string& method, const std::string& path) {
    http::Request head;
    head.method = method;
    head.path = path;
    return api_.router().find(head);
  }

  TemporaryDirectory directory_;
  Repository repository_{{.directory = directory_.path()}};
  online::ModelStores stores_{directory_.path()};
  http::Access access_;
  Generations generations_;
  RestApi api_{repository_, stores_, generations_, access_, {"127.0.0.1", {}}};
};

// Any path that a pattern stands for.
std::string example_of(std::string_view pattern) {
  std::string path = "/" + std::string(pattern);
  for (const std::string name : {"{model}", "{version}"}) {
    if (const auto at = path.find(name); at != std::string::npos)
      path.replace(at, name.size(), name == "{model}" ? "m" : "3");
  }
  return path;
}

TEST_F(Routes, EachIsFoundByItsPathAndMethodAndNoOther) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Route& route : api_.router().routes()) {
    const auto path = example_of(route.pattern);
    EXPECT_TRUE(seen.insert({path, route.method}).second) << path << " is there twice";
    const Match match = find(route.method, path);
    EXPECT_EQ(match.route, &route) << path;
    EXPECT_EQ(match.model, route.pattern.find("{model}") == std::string::npos ? "" : "m");
    EXPECT_EQ(match.version, route.pattern.find("{version}") == std::string::npos ? "" : "3");
    EXPECT_TRUE(contains(error_of([&] { find("PATCH", path); }), "expected "));
    EXPECT_TRUE(
        contains(error_of([&] { find(route.method, path + "/x/x/x/x"); }), "there is nothing at"));
  }
}

// Nobody without a token changes anything or sees what is served.
TEST_F(Routes, OnlyThePageAndHealthNeedNoRole) {
  for (const Route& route : api_.router().routes()) {
    const bool changes = route.method == "POST" && route.role != http::Role::infer;
    if (changes) {
      EXPECT_TRUE(route.role == http::Role::operate || route.pattern == "v2/repository/index")
          << route.pattern;
    }
    EXPECT_TRUE(route.role != http::Role::none || route.method == "GET") << route.pattern;
  }
}

TEST_F(Routes, NamesAreDecodedAndSlashesRunTogether) {
  EXPECT_EQ(find("GET", "//v2//models/a%20b/").model, "a b");
  EXPECT_EQ(find("HEAD", "/v2/models/m").route->pattern, "v2/models/{model}");
  EXPECT_EQ(find("GET", "/v2/models/%ED%95%9C").model, "한");
}

}  // namespace
}  // namespace sullae::testing
