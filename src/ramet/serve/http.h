#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::serve {

/// A request as it came, but for its framing: nothing is decoded yet.
struct HttpRequest {
  std::string method;  ///< "GET"
  std::string target;  ///< path and query as the client wrote them: "/api/v1/runs?limit=10"
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  /// The first value of a header, whatever the case of its name; "" when it is not there.
  std::string_view header(std::string_view name) const;
  /// How often a header stands in the request.
  int count(std::string_view name) const;
};

/// A stream of server-sent events to one client. Writers never wait for the client: when it takes less than it is
/// given, `kMostWaiting` bytes later the stream ends, and the client asks again.
class EventStream {
 public:
  static constexpr size_t kMostWaiting = 256 << 10;

  /// Adds text, which is whole events or comments. False once the stream has ended.
  bool write(std::string_view text);
  /// Ends the stream after what was written.
  void close();
  /// Whether the client is gone, or was too slow.
  bool ended() const;

  // For the server that sends the stream.
  /// Copies at most `most` bytes; 0 when there are none now. After `next` returned nothing, `wake` is called once, by
  /// the thread of the next `write` or `close`. nullopt at the end of the stream.
  std::optional<size_t> take(char* to, size_t most, const std::function<void()>& sleep, std::function<void()> wake);
  /// The client is gone.
  void abandon();
  /// Whether the stream ended because the client did not read.
  bool overflowed() const;

 private:
  mutable std::mutex mutex_;
  std::string waiting_;
  std::function<void()> wake_;
  bool closed_ = false, overflowed_ = false;
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
  std::shared_ptr<EventStream> stream{};  ///< instead of a body
};

/// Answers a request; called by several threads at once. An exception is answered with 500.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

struct HttpOptions {
  std::string host = "127.0.0.1";  ///< an address, IPv4 or IPv6, or a name of this machine
  int port = 0;                    ///< 0: the system chooses
  int workers = 4;                 ///< threads that run the handler
  size_t most_connections = 512;   ///< beyond them, those that have waited longest for a request are closed
  size_t most_streams = 128;       ///< event streams; beyond them 503
  size_t most_waiting = 256;       ///< requests that wait for a worker; beyond them 503
  size_t most_header = 32 << 10;   ///< bytes of a request's head
  size_t most_body = 4 << 20;      ///< bytes of a request's body; beyond them 413
  double idle_seconds = 60;        ///< a connection without a request
  double receive_seconds = 30;     ///< from a request's first line to its last byte
  double send_seconds = 60;        ///< for an answer, and a second more for every 32 KiB of it
};

/// Counts for /metrics.
struct HttpCounts {
  uint64_t requests = 0, refused = 0, closed_slow = 0;
  size_t connections = 0, streams = 0;
};

/// An HTTP/1.1 server: one thread talks to all connections, workers run the handler. No client can hold it up: heads,
/// bodies, connections, and the time that each of them takes are bounded.
class HttpServer {
 public:
  /// Listens and begins to answer. Throws Error when the address cannot be had.
  HttpServer(HttpOptions options, HttpHandler handler);
  /// Ends: no new connections, event streams close, requests that are being answered get a second, all threads join.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  HttpCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether this build can serve.
bool can_serve();

}  // namespace ramet::serve
