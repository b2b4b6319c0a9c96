#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::track {

struct ClientRequest {
  std::string method = "GET", url;
  std::vector<std::string> headers;  ///< "Content-Type: application/json"
  std::string_view body;             ///< lives until the answer is there
};
struct ClientResponse {
  int status = 0;  ///< 0: no answer came; `body` says why
  std::string body;
  double retry_after = 0;  ///< seconds that the server asks to wait
};
/// Sends a request and waits for the answer.
using HttpSend = std::function<ClientResponse(const ClientRequest&)>;

/// How a server wants to be spoken to.
struct HttpAccess {
  std::string user, password;      ///< HTTP basic
  std::string token;               ///< a bearer token, instead of them
  bool check_certificates = true;  ///< of https
  std::string certificates;        ///< a file of certificates to trust instead of the system's; ""
  double seconds = 0;              ///< longest time of a request, with its answer; 0: as long as bytes come
};

/// A client of HTTP by libcurl: it keeps its connection, follows no redirection (credentials would go along) and ends
/// a request that stands still. Throws Error in builds without libcurl, and says how to get it.
HttpSend http_client(const HttpAccess& access);

/// For a part of a path or of a query: all but letters, digits, '-', '.', '_' and '~' as %XX.
std::string url_encoded(std::string_view text);

}  // namespace ramet::track
