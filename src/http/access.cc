#include "http/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/request_error.h"
#include "base/secret.h"
#include "base/toml_file.h"

namespace sullae::http {
namespace {

constexpr std::size_t kLeastLength = 16;
constexpr const char* kRoles[] = {"none", "read", "infer", "operate"};

Role parse_role(const std::string& text) {
  for (int role = 1; role < 4; ++role) {
    if (text == kRoles[role]) return static_cast<Role>(role);
  }
  return Role::none;
}

// Who can read the file can do all that its tokens allow.
void expect_private(const std::filesystem::path& file) {
  std::error_code error;
  const auto mode = std::filesystem::status(file, error).permissions();
  using std::filesystem::perms;
  if (error) return;  // reading it will say why
  if ((mode & (perms::others_write | perms::group_write)) != perms::none)
    throw InputError(fmt::format("{}: others may write to it: expected chmod 600", file.string()));
  if ((mode & perms::others_read) != perms::none)
    log::warning("{}: everybody on this machine may read it (chmod 600)", file.string());
}

}  // namespace

Access::Access(const std::filesystem::path& file) {
  const TomlFile source(file);
  expect_private(file);
  const toml::table table = source.parse();
  for (const auto& [key, value] : table) {
    if (key != "token")
      source.fail(value, fmt::format("'{}' is no setting; there are: [[token]]", key.str()));
  }
  const auto* list = table["token"].as_array();
  if (list == nullptr || list->empty())
    throw InputError(fmt::format("{}: expected [[token]] tables", file.string()));
  for (const auto& node : *list) {
    const auto* entry = node.as_table();
    if (entry != nullptr) source.expect_keys(*entry, {"name", "role", "token"});
    const auto field = [&](const char* name) {
      return entry == nullptr ? std::string() : (*entry)[name].value_or(std::string());
    };
    Token token{.name = field("name"), .token = field("token"), .role = parse_role(field("role"))};
    if (token.name.empty() || token.token.size() < kLeastLength || token.role == Role::none) {
      source.fail(node,
                  fmt::format("expected name, role (read, infer or operate) and token (at least {} "
                              "characters)",
                              kLeastLength));
    }
    if (!std::ranges::all_of(token.token, [](char c) { return c > ' ' && c < 0x7f; }))
      source.fail(node, fmt::format("'{}': expected a token of visible ASCII characters, without "
                                    "blanks: headers have no others",
                                    token.name));
    for (const Token& other : tokens_) {
      if (other.token == token.token)
        source.fail(node, fmt::format("'{}' has the token of '{}': expected one of its own",
                                      token.name, other.name));
    }
    tokens_.push_back(std::move(token));
  }
}

std::string Access::check(std::string_view authorization, Role needed) const {
  if (open()) return "anonymous";
  // The scheme's case does not matter (RFC 9110, section 11.1).
  constexpr std::string_view kBearer = "bearer ";
  const bool bearer =
      authorization.size() > kBearer.size() &&
      std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer,
                         [](char given, char good) { return (given | 0x20) == good; });
  if (!bearer)
    throw RequestError(Refusal::unauthenticated, "expected a header 'Authorization: Bearer TOKEN'");
  authorization.remove_prefix(kBearer.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  for (const Token& token : tokens_) {
    if (!equal_in_constant_time(token.token, authorization)) continue;
    if (token.role >= needed) return token.name;
    throw RequestError(
        Refusal::forbidden,
        fmt::format("the token of '{}' may {}, and this needs {}", token.name,
                    kRoles[static_cast<int>(token.role)], kRoles[static_cast<int>(needed)]));
  }
  throw RequestError(Refusal::unauthenticated, "the token is not known");
}

}  // namespace sullae::http
