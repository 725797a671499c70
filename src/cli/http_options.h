// Options of commands that serve HTTP.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sullae::cli {

/// --tls-cert and --tls-key, both or none.
inline void add_tls_options(CLI::App& app, std::string& certificate, std::string& key) {
  auto* certificate_option =
      app.add_option("--tls-cert", certificate, "Certificate chain (PEM): serve TLS")
          ->type_name("FILE");
  auto* key_option = app.add_option("--tls-key", key, "Its private key (PEM)")->type_name("FILE");
  certificate_option->needs(key_option);
  key_option->needs(certificate_option);
}

/// --allowed-host.
inline void add_allowed_hosts(CLI::App& app, std::vector<std::string>& hosts) {
  app.add_option("--allowed-host", hosts,
                 "Without tokens: a name that clients may call this server by (repeatable)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
}

/// An address of version 6 in brackets (RFC 3986).
inline std::string host_in_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace sullae::cli
