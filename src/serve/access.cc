#include "serve/access.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "serve/request_error.h"
#include "serve/toml_file.h"

namespace sullae::serve {
namespace {

constexpr std::size_t kLeastLength = 16;
constexpr const char* kRoles[] = {"none", "read", "infer", "operate"};

Role parse_role(const std::string& text) {
  for (int role = 1; role < 4; ++role) {
    if (text == kRoles[role]) return static_cast<Role>(role);
  }
  return Role::none;
}

// Takes equally long for all tokens of a length, so that none can be guessed character by character.
bool equal(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace

Access::Access(const std::filesystem::path& file) {
  const TomlFile source(file);
  const toml::table table = source.parse();
  const auto* list = table["token"].as_array();
  if (list == nullptr || list->empty())
    throw InputError(fmt::format("{}: expected [[token]] tables", file.string()));
  for (const auto& node : *list) {
    const auto* entry = node.as_table();
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
    tokens_.push_back(std::move(token));
  }
}

std::string Access::check(std::string_view authorization, Role needed) const {
  if (open()) return "anonymous";
  constexpr std::string_view kBearer = "Bearer ";
  if (!authorization.starts_with(kBearer))
    throw RequestError(Refusal::unauthenticated, "expected a header 'Authorization: Bearer TOKEN'");
  authorization.remove_prefix(kBearer.size());
  for (const Token& token : tokens_) {
    if (!equal(token.token, authorization)) continue;
    if (token.role >= needed) return token.name;
    throw RequestError(
        Refusal::forbidden,
        fmt::format("the token of '{}' may {}, and this needs {}", token.name,
                    kRoles[static_cast<int>(token.role)], kRoles[static_cast<int>(needed)]));
  }
  throw RequestError(Refusal::unauthenticated, "the token is not known");
}

}  // namespace sullae::serve
