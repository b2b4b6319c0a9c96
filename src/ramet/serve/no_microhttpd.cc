// In place of microhttpd.cc in builds without GNU libmicrohttpd.
#include "ramet/base/error.h"
#include "ramet/serve/http.h"

namespace ramet::serve {

struct HttpServer::State {};

HttpServer::HttpServer(HttpOptions, HttpHandler) {
  throw Error({.what = "this build of Ramet cannot serve: GNU libmicrohttpd was not there when it was built",
               .remedy = "Install libmicrohttpd-dev (scripts/setup.sh does), configure and build again"},
              ErrorKind::kFailure);
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
HttpCounts HttpServer::counts() const { return {}; }
bool can_serve() { return false; }

}  // namespace ramet::serve
