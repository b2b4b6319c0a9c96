#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ramet::tests {

/// An answer of an HTTP server. Status 0: the connection ended without one.
struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers{};  ///< names in small letters
  std::string body{};
};

/// A connection that sends any bytes, right or wrong.
class HttpClient {
 public:
  explicit HttpClient(int port) : port_(port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      if (fd_ >= 0) ::close(fd_);
      throw std::runtime_error("cannot connect");
    }
  }
  ~HttpClient() { ::close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  int fd() const { return fd_; }

  /// False when the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// "GET /path HTTP/1.1" with the right Host; `more` are further lines, each with its line end.
  bool request(const std::string& line, const std::string& more = "", const std::string& body = "") {
    std::string text = line + "\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n" + more;
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return send(text + "\r\n" + body);
  }

  /// The next answer, or status 0 at the end of the connection. Throws when nothing comes for so long.
  HttpReply reply(double seconds = 10, bool has_body = true) {
    const auto end = deadline(seconds);
    while (seen_.find("\r\n\r\n") == std::string::npos)
      if (!more(end)) return {};
    HttpReply reply = head();
    if (!has_body || reply.status == 204 || reply.status == 304) return reply;
    if (reply.headers.contains("transfer-encoding")) {
      while (chunk(reply.body, end)) {
      }
    } else {
      const size_t size = std::strtoull(reply.headers["content-length"].c_str(), nullptr, 10);
      while (seen_.size() < size)
        if (!more(end)) break;
      reply.body = seen_.substr(0, size);
      seen_.erase(0, size);
    }
    return reply;
  }

  /// The head of an answer whose body is a stream.
  HttpReply stream_head(double seconds = 10) { return reply(seconds, false); }
  /// What a stream has sent until this text is in it; throws when it does not come.
  std::string stream_until(const std::string& text, double seconds = 10) {
    const auto end = deadline(seconds);
    while (stream_.find(text) == std::string::npos) {
      if (!chunk(stream_, end)) throw std::runtime_error("the stream ended with: " + stream_);
    }
    return std::exchange(stream_, "");
  }

  /// Whether the server closes the connection within this time; what it sends before is dropped.
  bool closes_within(double seconds) {
    const auto end = deadline(seconds);
    try {
      while (more(end)) {
      }
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point deadline(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  /// Reads some bytes; false at the end of the connection.
  bool more(Clock::time_point end) {
    pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) throw std::runtime_error("no answer in time");
    char buffer[16 << 10];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    seen_.append(buffer, static_cast<size_t>(got));
    return true;
  }

  HttpReply head() {
    HttpReply reply;
    const size_t end = seen_.find("\r\n\r\n");
    const std::string text = seen_.substr(0, end + 2);
    seen_.erase(0, end + 4);
    reply.status = text.size() > 12 ? std::atoi(text.c_str() + 9) : 0;
    for (size_t at = text.find("\r\n") + 2; at < text.size();) {
      const size_t stop = text.find("\r\n", at), colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
      reply.headers[name] = text.substr(colon + 2, stop - colon - 2);
      at = stop + 2;
    }
    return reply;
  }

  /// Appends the next chunk; false after the last one, or at the end of the connection.
  bool chunk(std::string& to, Clock::time_point end) {
    size_t line;
    while ((line = seen_.find("\r\n")) == std::string::npos)
      if (!more(end)) return false;
    const size_t size = std::strtoull(seen_.c_str(), nullptr, 16);
    while (seen_.size() < line + 2 + size + 2)
      if (!more(end)) return false;
    to += seen_.substr(line + 2, size);
    seen_.erase(0, line + 2 + size + 2);
    return size > 0;
  }

  int port_, fd_ = -1;
  std::string seen_, stream_;
};

/// One request on a connection of its own.
inline HttpReply http(int port, const std::string& line, const std::string& more = "", const std::string& body = "") {
  HttpClient client(port);
  client.request(line + " HTTP/1.1", more, body);
  return client.reply(10, !line.starts_with("HEAD "));
}

}  // namespace ramet::tests
