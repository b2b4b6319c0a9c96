// Stands in for curl.cc in builds without libcurl.
#include "ramet/base/error.h"
#include "ramet/track/http.h"

namespace ramet::track {

HttpSend http_client(const HttpAccess&) {
  throw Error({.what = "this build cannot speak HTTP: it was made without libcurl",
               .remedy = "Install libcurl4-openssl-dev, then configure and build again"});
}

}  // namespace ramet::track
