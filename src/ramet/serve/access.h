#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/serve/http.h"
#include "ramet/serve/url.h"

namespace ramet::serve {

/// Who may use a server.
struct AccessOptions {
  bool token = true;                       ///< ask for a session or a bearer token
  std::filesystem::path token_file;        ///< of the bearer token; made when absent
  std::string proxy_header;                ///< a reverse proxy names the user in it; "": there is no proxy
  std::vector<std::string> allowed_hosts;  ///< names, beside addresses, localhost and this machine's name
  std::filesystem::path session_file;      ///< keeps sessions over restarts; "": they end with the server
};

/// 256 random bits as 64 hexadecimal digits.
std::string random_token();
/// Whether two texts are equal, in a time that does not depend on where they differ.
bool equal_secrets(std::string_view a, std::string_view b);

/// Decides who may use the server. Any thread may call any function.
class AccessControl {
 public:
  /// Reads or makes the token file and reads the session file. Throws Error when the token file cannot be used, or
  /// others may read it.
  AccessControl(AccessOptions options, int port);

  /// A new token that opens one session; it lasts a day, unused.
  std::string new_link_token();
  /// Exchanges a token of a link for a session: the value of the Set-Cookie header. nullopt when the token is not
  /// known, or was used.
  std::optional<std::string> open_session(std::string_view token);
  /// The user of a request ("" without a proxy's header): by session, bearer token, proxy, or because no token is asked
  /// for. nullopt: not allowed.
  std::optional<std::string> user_of(const HttpRequest& request) const;
  /// Why a request is refused from every client: its Host is not this server's (DNS rebinding), or another site made
  /// the browser send it. "" when it is fine.
  std::string fault_of_origin(const HttpRequest& request) const;

  const std::string& cookie_name() const { return cookie_name_; }
  bool asks_for_token() const { return options_.token; }

 private:
  bool knows_host(const HostPort& host) const;
  void read_sessions();
  void write_sessions() const;

  AccessOptions options_;
  std::string cookie_name_, bearer_;
  std::vector<std::string> hosts_;
  mutable std::mutex mutex_;
  std::map<std::string, double> links_, sessions_;  ///< tokens, and until when they hold, in seconds since 1970
};

}  // namespace ramet::serve
