// Who may do what: bearer tokens with roles.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::http {

/// Each role may do what those before it may.
enum class Role { none, read, infer, operate };

/// Any thread may call it.
class Access {
 public:
  /// Everybody may do everything.
  Access() = default;
  /// Reads `file`, which has a table a token:
  ///
  ///   [[token]]
  ///   name = "kim"          # whom changes are recorded under
  ///   role = "operate"      # read, infer or operate
  ///   token = "…"           # at least 16 characters
  ///
  /// Throws InputError that says where, also for a file that others may write to.
  explicit Access(const std::filesystem::path& file);
  /// One token alone.
  Access(const std::string& name, Role role, const std::string& token)
      : tokens_{{.name = name, .token = token, .role = role}} {}

  bool open() const { return tokens_.empty(); }

  /// The name of who sends "Authorization: Bearer …" with `authorization` as its value; "anonymous"
  /// where everybody may do everything. Throws RequestError (unauthenticated, forbidden).
  std::string check(std::string_view authorization, Role needed) const;

 private:
  struct Token {
    std::string name;
    std::string token;
    Role role = Role::none;
  };
  std::vector<Token> tokens_;
};

}  // namespace sullae::http
