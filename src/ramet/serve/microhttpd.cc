// The one file that knows GNU libmicrohttpd. One thread of the library talks to all connections (epoll). A request that
// is complete is handed to a worker while its connection is suspended, so that a slow answer holds up nobody else.
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <deque>
#include <list>
#include <set>
#include <system_error>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/serve/http.h"
#include "ramet/serve/url.h"

namespace ramet::serve {
namespace {

constexpr double kBytesASecond = 32 << 10;  // a client that reads slower than this may be closed
constexpr unsigned kFallbackTimeout = 600;  // of the library itself, in seconds; the deadlines here are shorter
constexpr auto kGrace = std::chrono::seconds(1);

/// What a connection is waiting for.
enum class ConnectionPhase { kIdle, kReceiving, kWorking, kSending, kStreaming };

struct ConnectionState {
  int fd = -1;
  ConnectionPhase phase = ConnectionPhase::kIdle;
  Clock::time_point since = Clock::now();
  double allowed = 0;  ///< seconds for this phase
  std::shared_ptr<EventStream> stream;
};

/// One request with its answer.
struct Exchange {
  MHD_Connection* connection = nullptr;
  ConnectionState* slot = nullptr;
  HttpRequest request;
  HttpResponse response;
  bool begun = false, too_large = false, answered = false;
};

HttpResponse plain(int status, const std::string& text) {
  return {.status = status, .headers = {{"Content-Type", "text/plain; charset=utf-8"}}, .body = text + "\n"};
}

[[noreturn]] void refuse_address(const HttpOptions& options, int reason) {
  const std::string where = options.host + ":" + std::to_string(options.port);
  if (reason == EADDRINUSE)
    throw Error({.what = "the port is taken: another program listens there",
                 .where = where,
                 .remedy = "Choose another with --port, or --port 0 for a free one"},
                ErrorKind::kFailure);
  if (reason == EACCES)
    throw Error({.what = "this user may not listen on this port",
                 .where = where,
                 .remedy = "Choose a port from 1024 on with --port"},
                ErrorKind::kFailure);
  throw Error({.what = "cannot listen there (" + std::generic_category().message(reason) + ")",
               .where = where,
               .expected = "an address of this machine"},
              ErrorKind::kFailure);
}

/// A socket that listens; -1 and `reason` when this address does not work.
int listen_at(const addrinfo& address, int& reason) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return reason = errno, -1;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  reason = errno;
  ::close(fd);
  return -1;
}

int open_listener(const HttpOptions& options) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int code = ::getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found))
    throw Error({.what = std::string("no such address (") + ::gai_strerror(code) + ")",
                 .where = "--host",
                 .found = "'" + options.host + "'",
                 .expected = "an address of this machine"});
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* address = found; address; address = address->ai_next)
    if (const int fd = listen_at(*address, reason); fd >= 0) return fd;
  refuse_address(options, reason);
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char port[NI_MAXSERV] = "0";
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  return std::atoi(port);
}

}  // namespace

struct HttpServer::State {
  HttpOptions options;
  HttpHandler handler;
  MHD_Daemon* daemon = nullptr;
  int port = 0;

  mutable std::mutex mutex;
  std::condition_variable jobs_changed, ticked;
  bool stopping = false;
  std::deque<Exchange*> jobs;
  std::list<ConnectionState> connections;  // in the order in which they came
  std::set<std::shared_ptr<EventStream>> streams;
  size_t exchanges = 0;
  HttpCounts counts;
  std::vector<std::thread> threads;

  void enter(ConnectionState& slot, ConnectionPhase phase, double allowed) {
    slot.phase = phase;
    slot.since = Clock::now();
    slot.allowed = allowed;
    if (phase != ConnectionPhase::kStreaming) slot.stream = nullptr;
  }

  static bool waits_for_client(const ConnectionState& slot) {
    return slot.phase == ConnectionPhase::kIdle || slot.phase == ConnectionPhase::kReceiving;
  }

  void opened(MHD_Connection* connection, void** socket) {
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    std::lock_guard lock(mutex);
    // A new connection needs room: the connection that has been idle longest is closed.
    if (connections.size() >= options.most_connections) {
      ConnectionState* oldest = nullptr;
      for (auto& slot : connections)
        if (slot.fd >= 0 && waits_for_client(slot) && (!oldest || slot.since < oldest->since)) oldest = &slot;
      if (oldest) shut(*oldest);
    }
    connections.push_back({.fd = info ? info->connect_fd : -1, .stream = nullptr});
    connections.back().allowed = options.idle_seconds;
    *socket = &connections.back();
  }

  void closed(void** socket) {
    std::lock_guard lock(mutex);
    connections.remove_if([&](const ConnectionState& slot) { return &slot == *socket; });
    *socket = nullptr;
  }

  /// Ends a connection from outside: the library finds it closed by the client. The slot's socket is open as long as
  /// the slot is in the list.
  void shut(ConnectionState& slot) {
    ::shutdown(slot.fd, SHUT_RDWR);
    slot.fd = -1;
    ++counts.closed_slow;
  }

  void watch() {
    const double shortest = std::min({options.idle_seconds, options.receive_seconds, options.send_seconds, 4.0});
    const auto tick = std::chrono::duration<double>(std::max(shortest / 4, 0.01));
    std::unique_lock lock(mutex);
    while (!stopping) {
      ticked.wait_for(lock, tick);
      for (auto& slot : connections) {
        if (slot.fd < 0 || slot.phase == ConnectionPhase::kWorking) continue;
        const bool late = slot.phase == ConnectionPhase::kStreaming ? slot.stream && slot.stream->overflowed()
                                                                    : seconds_since(slot.since) > slot.allowed;
        if (late) shut(slot);
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      jobs_changed.wait(lock, [&] { return stopping || !jobs.empty(); });
      if (jobs.empty()) return;
      Exchange* job = jobs.front();
      jobs.pop_front();
      const bool too_late = stopping;
      lock.unlock();
      job->response = too_late ? plain(503, "The server ends.") : answer(job->request);
      job->answered = true;
      MHD_resume_connection(job->connection);
      lock.lock();
    }
  }

  HttpResponse answer(const HttpRequest& request) const {
    try {
      return handler(request);
    } catch (const std::exception&) {
      return plain(500, "The server failed to answer.");
    }
  }

  Exchange* begin(const char* target, MHD_Connection* connection) {
    auto exchange = std::make_unique<Exchange>();
    exchange->connection = connection;
    exchange->request.target = target;
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    std::lock_guard lock(mutex);
    exchange->slot = info ? static_cast<ConnectionState*>(info->socket_context) : nullptr;
    if (exchange->slot) enter(*exchange->slot, ConnectionPhase::kReceiving, options.receive_seconds);
    ++exchanges;
    ++counts.requests;
    return exchange.release();
  }

  void complete(Exchange* exchange) {
    std::lock_guard lock(mutex);
    --exchanges;
    if (exchange->response.stream) streams.erase(exchange->response.stream);
    if (exchange->slot) enter(*exchange->slot, ConnectionPhase::kIdle, options.idle_seconds);
    delete exchange;
  }

  MHD_Result receive(Exchange& exchange, const char* method, const char* data, size_t* size) {
    if (!exchange.begun) {
      exchange.begun = true;
      exchange.request.method = method;
      return take_head(exchange);
    }
    if (*size > 0) {
      auto& body = exchange.request.body;
      // The rest of a body that is too large is read and dropped, so that the client reads the answer; not for ever.
      if (body.size() + *size > options.most_body) exchange.too_large = true;
      if (!exchange.too_large) body.append(data, *size);
      *size = 0;
      return MHD_YES;
    }
    if (exchange.answered) return send(exchange);
    if (exchange.too_large) return refuse(exchange, 413, "The body is too large.");
    return dispatch(exchange);
  }

  MHD_Result take_head(Exchange& exchange) {
    auto& request = exchange.request;
    MHD_get_connection_values(
        exchange.connection, MHD_HEADER_KIND,
        [](void* to, MHD_ValueKind, const char* key, const char* value) {
          static_cast<HttpRequest*>(to)->headers.emplace_back(key, value ? value : "");
          return MHD_YES;
        },
        &request);
    const std::string_view length = request.header("Content-Length");
    if (request.count("Content-Length") > 1 || (!length.empty() && request.count("Transfer-Encoding") > 0))
      return refuse(exchange, 400, "The length of the body is not clear.");
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (!length.empty() && (error != std::errc() || end != length.data() + length.size()))
      return refuse(exchange, 400, "The length of the body is no number.");
    if (bytes > options.most_body) return refuse(exchange, 413, "The body is too large.");
    return MHD_YES;
  }

  MHD_Result refuse(Exchange& exchange, int status, const std::string& text) {
    exchange.response = plain(status, text);
    exchange.response.headers.emplace_back("Connection", "close");
    exchange.answered = true;
    std::unique_lock lock(mutex);
    ++counts.refused;
    lock.unlock();
    return send(exchange);
  }

  MHD_Result dispatch(Exchange& exchange) {
    std::unique_lock lock(mutex);
    if (stopping || jobs.size() >= options.most_waiting) {
      lock.unlock();
      return refuse(exchange, 503, "The server has too much to do. Ask again.");
    }
    if (exchange.slot) enter(*exchange.slot, ConnectionPhase::kWorking, 0);
    MHD_suspend_connection(exchange.connection);
    jobs.push_back(&exchange);
    jobs_changed.notify_one();
    return MHD_YES;
  }

  struct Streaming {
    std::shared_ptr<EventStream> stream;
    MHD_Connection* connection;
  };

  static ssize_t read_stream(void* to, uint64_t, char* buffer, size_t most) {
    const auto& use = *static_cast<Streaming*>(to);
    const auto taken = use.stream->take(
        buffer, most, [&] { MHD_suspend_connection(use.connection); },
        [connection = use.connection] { MHD_resume_connection(connection); });
    return taken ? static_cast<ssize_t>(*taken) : static_cast<ssize_t>(MHD_CONTENT_READER_END_OF_STREAM);
  }

  static void end_stream(void* to) {
    const std::unique_ptr<Streaming> use(static_cast<Streaming*>(to));
    use->stream->abandon();
  }

  /// Takes a place among the streams; false when there is none.
  bool admit(const Exchange& exchange) {
    std::lock_guard lock(mutex);
    if (streams.size() >= options.most_streams || stopping) return false;
    streams.insert(exchange.response.stream);
    if (exchange.slot) {
      enter(*exchange.slot, ConnectionPhase::kStreaming, 0);
      exchange.slot->stream = exchange.response.stream;
    }
    return true;
  }

  MHD_Result send(Exchange& exchange) {
    if (exchange.response.stream && !admit(exchange)) {
      exchange.response.stream->close();
      exchange.response = plain(503, "Too many pages are open. Close some of them.");
    }
    auto& answer = exchange.response;
    MHD_Response* response = nullptr;
    if (answer.stream) {
      auto use = std::make_unique<Streaming>(Streaming{answer.stream, exchange.connection});
      response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, &read_stream, use.get(), &end_stream);
      if (response) (void)use.release();
    } else {
      if (exchange.slot) {
        std::lock_guard lock(mutex);
        enter(*exchange.slot, ConnectionPhase::kSending,
              options.send_seconds + static_cast<double>(answer.body.size()) / kBytesASecond);
      }
      auto body = std::make_unique<std::string>(std::move(answer.body));
      response = MHD_create_response_from_buffer_with_free_callback_cls(
          body->size(), body->data(), [](void* text) { delete static_cast<std::string*>(text); }, body.get());
      if (response) (void)body.release();
    }
    if (!response) return MHD_NO;
    for (const auto& [key, value] : answer.headers) MHD_add_response_header(response, key.c_str(), value.c_str());
    const MHD_Result queued = MHD_queue_response(exchange.connection, static_cast<unsigned>(answer.status), response);
    MHD_destroy_response(response);
    return queued;
  }

  void start(int listener) {
    const auto on_request = [](void* state, MHD_Connection*, const char*, const char* method, const char*,
                               const char* data, size_t* size, void** exchange) -> MHD_Result {
      if (!*exchange) return MHD_NO;
      return static_cast<State*>(state)->receive(*static_cast<Exchange*>(*exchange), method, data, size);
    };
    const auto on_target = [](void* state, const char* target, MHD_Connection* connection) -> void* {
      return static_cast<State*>(state)->begin(target, connection);
    };
    const auto on_complete = [](void* state, MHD_Connection*, void** exchange, MHD_RequestTerminationCode) {
      if (*exchange) static_cast<State*>(state)->complete(static_cast<Exchange*>(std::exchange(*exchange, nullptr)));
    };
    const auto on_connection = [](void* state, MHD_Connection* connection, void** socket,
                                  MHD_ConnectionNotificationCode code) {
      if (code == MHD_CONNECTION_NOTIFY_STARTED)
        static_cast<State*>(state)->opened(connection, socket);
      else
        static_cast<State*>(state)->closed(socket);
    };
    using OnTarget = void* (*)(void*, const char*, MHD_Connection*);
    daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
        static_cast<MHD_AccessHandlerCallback>(on_request), this, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(options.most_connections + 64),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.most_header, MHD_OPTION_CONNECTION_TIMEOUT, kFallbackTimeout,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, static_cast<OnTarget>(on_target), this,
        MHD_OPTION_NOTIFY_COMPLETED, static_cast<MHD_RequestCompletedCallback>(on_complete), this,
        MHD_OPTION_NOTIFY_CONNECTION, static_cast<MHD_NotifyConnectionCallback>(on_connection), this, MHD_OPTION_END);
    if (!daemon) {
      const int reason = errno;
      ::close(listener);
      throw Error({.what = "the HTTP server cannot start (" + std::generic_category().message(reason) + ")"},
                  ErrorKind::kFailure);
    }
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
    threads.emplace_back([this] { watch(); });
  }

  void stop() {
    const int listener = MHD_quiesce_daemon(daemon);
    std::unique_lock lock(mutex);
    stopping = true;
    for (const auto& stream : streams) stream->close();
    jobs_changed.notify_all();
    ticked.notify_all();
    lock.unlock();
    // No connection may be suspended when the library stops: workers resume theirs, and closed streams do not sleep.
    for (auto& thread : threads) thread.join();
    const auto end = Clock::now() + kGrace;
    lock.lock();
    while (exchanges > 0 && Clock::now() < end) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      lock.lock();
    }
    lock.unlock();
    MHD_stop_daemon(daemon);
    if (listener >= 0) ::close(listener);
  }
};

HttpServer::HttpServer(HttpOptions options, HttpHandler handler) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->handler = std::move(handler);
  const int listener = open_listener(state_->options);
  state_->port = port_of(listener);
  state_->start(listener);
}

HttpServer::~HttpServer() { state_->stop(); }

int HttpServer::port() const { return state_->port; }

HttpCounts HttpServer::counts() const {
  std::lock_guard lock(state_->mutex);
  HttpCounts counts = state_->counts;
  counts.connections = state_->connections.size();
  counts.streams = state_->streams.size();
  return counts;
}

bool can_serve() { return true; }

}  // namespace ramet::serve
