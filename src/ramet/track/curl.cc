// The one file that knows libcurl. Its stand-in for builds without libcurl is no_curl.cc.
#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "ramet/base/error.h"
#include "ramet/base/version.h"
#include "ramet/track/http.h"

namespace ramet::track {
namespace {

constexpr long kConnectSeconds = 15;
constexpr long kStillSeconds = 60;           // with less than a byte a second, a request has failed
constexpr size_t kMostResponse = 256 << 20;  // bytes of an answer

struct CloseHandle {
  void operator()(CURL* handle) const { ::curl_easy_cleanup(handle); }
};
struct FreeList {
  void operator()(curl_slist* list) const { ::curl_slist_free_all(list); }
};

size_t take_body(char* data, size_t size, size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * count > kMostResponse) return 0;  // ends the request
  body.append(data, size * count);
  return size * count;
}

/// A connection, kept between requests.
class Connection {
 public:
  explicit Connection(HttpAccess access) : access_(std::move(access)) {
    static std::once_flag once;
    std::call_once(once, [] { ::curl_global_init(CURL_GLOBAL_DEFAULT); });
    handle_.reset(::curl_easy_init());
    if (!handle_) throw Error({.what = "libcurl cannot start"}, ErrorKind::kFailure);
  }

  ClientResponse send(const ClientRequest& request) {
    CURL* const handle = handle_.get();
    ::curl_easy_reset(handle);
    ClientResponse response;
    std::unique_ptr<curl_slist, FreeList> headers;
    const auto add = [&](const std::string& line) {
      curl_slist* const longer = ::curl_slist_append(headers.get(), line.c_str());
      if (longer) (void)headers.release(), headers.reset(longer);
    };
    add("Expect:");
    for (const std::string& line : request.headers) add(line);
    char problem[CURL_ERROR_SIZE] = "";
    ::curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
    ::curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    ::curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    if (request.method != "GET") {
      ::curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.data() ? request.body.data() : "");
      ::curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    }
    ::curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
    ::curl_easy_setopt(handle, CURLOPT_USERAGENT, (std::string("ramet/") + version()).c_str());
    ::curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    ::curl_easy_setopt(handle, CURLOPT_WRITEDATA, &response.body);
    ::curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem);
    ::curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    ::curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    ::curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kStillSeconds);
    if (access_.seconds > 0)
      ::curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(std::max(access_.seconds * 1000, 1.0)));
    set_access(handle);
    const CURLcode code = ::curl_easy_perform(handle);
    if (code != CURLE_OK) {
      response.status = 0;
      response.body = *problem ? problem : ::curl_easy_strerror(code);
      return response;
    }
    long status = 0;
    curl_off_t wait = 0;
    ::curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    ::curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &wait);
    response.status = static_cast<int>(status);
    response.retry_after = static_cast<double>(wait);
    return response;
  }

 private:
  void set_access(CURL* handle) const {
    if (!access_.token.empty()) {
      ::curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      ::curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, access_.token.c_str());
    } else if (!access_.user.empty()) {
      ::curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
      ::curl_easy_setopt(handle, CURLOPT_USERNAME, access_.user.c_str());
      ::curl_easy_setopt(handle, CURLOPT_PASSWORD, access_.password.c_str());
    }
    if (!access_.check_certificates) {
      ::curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
      ::curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (!access_.certificates.empty()) ::curl_easy_setopt(handle, CURLOPT_CAINFO, access_.certificates.c_str());
  }

  const HttpAccess access_;
  std::unique_ptr<CURL, CloseHandle> handle_;
};

}  // namespace

HttpSend http_client(const HttpAccess& access) {
  const auto connection = std::make_shared<Connection>(access);
  return [connection](const ClientRequest& request) { return connection->send(request); };
}

}  // namespace ramet::track
