#include "ramet/serve/access.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;

constexpr double kDay = 24 * 3600;
constexpr double kSessionDays = 30;
constexpr size_t kMostSessions = 256, kMostLinks = 64;
constexpr size_t kShortestToken = 16;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Writes a file that its owner alone may read, as a whole or not at all.
void write_secret(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + "." + std::to_string(::getpid()) + ".new";
  ::unlink(temporary.c_str());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  ::unlink(temporary.c_str());
  throw Error(
      {.what = "cannot write the file (" + std::generic_category().message(reason) + ")", .where = path.string()},
      ErrorKind::kFailure);
}

std::string read_or_make_token(const fs::path& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno != ENOENT)
      throw Error(
          {.what = "cannot read the token (" + std::generic_category().message(errno) + ")", .where = path.string()},
          ErrorKind::kFailure);
    std::string token = random_token();
    write_secret(path, token + "\n");
    return token;
  }
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw Error({.what = "others may read the token file",
                 .where = path.string(),
                 .expected = "a file of mode 0600",
                 .remedy = "chmod 600 " + path.string()});
  std::string token = read_file(path);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) token.pop_back();
  if (token.size() < kShortestToken || token.size() > 1024 || token.find_first_of(" \t\r\n") != std::string::npos)
    throw Error({.what = "the file holds no token",
                 .where = path.string(),
                 .expected = "one line of 16 to 1024 characters without spaces",
                 .remedy = "Remove the file, and a new token is made"});
  return token;
}

/// The value of a cookie in a Cookie header, or "".
std::string_view cookie_of(std::string_view header, std::string_view name) {
  for (size_t at = 0; at < header.size();) {
    const size_t end = std::min(header.find(';', at), header.size());
    std::string_view pair = header.substr(at, end - at);
    at = end + 1;
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return "";
}

void forget_old(std::map<std::string, double>& tokens, size_t most) {
  std::erase_if(tokens, [](const auto& token) { return token.second < now(); });
  while (tokens.size() >= most)
    tokens.erase(std::min_element(tokens.begin(), tokens.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; }));
}

/// Looks at every token, whichever fits.
bool holds(const std::map<std::string, double>& tokens, std::string_view token) {
  bool found = false;
  for (const auto& [known, until] : tokens) found |= equal_secrets(known, token) && until > now();
  return found;
}

}  // namespace

std::string random_token() {
  unsigned char bytes[32];
  for (size_t at = 0; at < sizeof bytes;) {
    const ssize_t got = ::getrandom(bytes + at, sizeof bytes - at, 0);
    if (got < 0 && errno != EINTR) throw Error({.what = "the system gives no random numbers"}, ErrorKind::kFailure);
    at += got > 0 ? static_cast<size_t>(got) : 0;
  }
  std::string text;
  for (const unsigned char byte : bytes) text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
  return text;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

AccessControl::AccessControl(AccessOptions options, int port)
    : options_(std::move(options)), cookie_name_("ramet_session_" + std::to_string(port)), hosts_{"localhost"} {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0')
    if (const auto host = parse_host(name)) hosts_.push_back(host->host);
  for (const auto& text : options_.allowed_hosts) {
    const auto host = parse_host(text);
    if (!host || host->port != 0)
      throw Error({.what = "no name of a host", .where = "--allow-host", .found = "'" + text + "'"});
    hosts_.push_back(host->host);
  }
  if (!options_.token_file.empty()) bearer_ = read_or_make_token(options_.token_file);
  read_sessions();
}

void AccessControl::read_sessions() {
  if (options_.session_file.empty()) return;
  try {
    const auto stored = nlohmann::json::parse(read_file(options_.session_file), nullptr, false);
    if (!stored.is_object()) return;
    for (const auto& [token, until] : stored.items())
      if (token.size() >= kShortestToken && until.is_number()) sessions_[token] = until.get<double>();
    forget_old(sessions_, kMostSessions);
  } catch (const Error&) {  // none yet
  }
}

void AccessControl::write_sessions() const {
  if (options_.session_file.empty()) return;
  try {
    std::error_code ignored;
    fs::create_directories(options_.session_file.parent_path(), ignored);
    write_secret(options_.session_file, nlohmann::json(sessions_).dump() + "\n");
  } catch (const Error&) {  // then they end with the server
  }
}

std::string AccessControl::new_link_token() {
  std::lock_guard lock(mutex_);
  forget_old(links_, kMostLinks);
  std::string token = random_token();
  links_[token] = now() + kDay;
  return token;
}

std::optional<std::string> AccessControl::open_session(std::string_view token) {
  std::lock_guard lock(mutex_);
  if (!holds(links_, token)) return std::nullopt;
  links_.erase(std::string(token));
  forget_old(sessions_, kMostSessions);
  const std::string session = random_token();
  sessions_[session] = now() + kSessionDays * kDay;
  write_sessions();
  return cookie_name_ + "=" + session +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(static_cast<int64_t>(kSessionDays * kDay));
}

std::optional<std::string> AccessControl::user_of(const HttpRequest& request) const {
  if (!options_.proxy_header.empty()) {
    // A name that stands twice may be one that the client wrote and the proxy let through.
    const std::string_view user = request.header(options_.proxy_header);
    if (!user.empty() && request.count(options_.proxy_header) == 1) return std::string(user);
  }
  if (const std::string_view header = request.header("Authorization"); !header.empty()) {
    constexpr std::string_view kBearer = "Bearer ";
    if (!bearer_.empty() && header.size() > kBearer.size() && same_letters(header.substr(0, kBearer.size()), kBearer) &&
        equal_secrets(header.substr(kBearer.size()), bearer_))
      return "";
    if (options_.token || !options_.proxy_header.empty()) return std::nullopt;
  }
  const std::string_view cookie = cookie_of(request.header("Cookie"), cookie_name_);
  if (!cookie.empty()) {
    std::lock_guard lock(mutex_);
    if (holds(sessions_, cookie)) return "";
  }
  if (!options_.token && options_.proxy_header.empty()) return "";
  return std::nullopt;
}

bool AccessControl::knows_host(const HostPort& host) const {
  // An address cannot be rebound by somebody's name server; a name can.
  return host.is_address || std::find(hosts_.begin(), hosts_.end(), host.host) != hosts_.end() ||
         host.host.ends_with(".localhost");
}

std::string AccessControl::fault_of_origin(const HttpRequest& request) const {
  if (request.count("Host") != 1) return "The request names no host, or several.";
  const auto host = parse_host(request.header("Host"));
  if (!host || !knows_host(*host))
    return "This server does not answer to that name of a host. --allow-host NAME allows it.";
  if (request.count("Origin") > 0) {
    const auto origin = parse_origin(request.header("Origin"));
    const bool same = origin && origin->host == host->host &&
                      (origin->port == host->port || (host->port == 0 && (origin->port == 80 || origin->port == 443)));
    const bool named = origin && std::find(options_.allowed_hosts.begin(), options_.allowed_hosts.end(),
                                           origin->host) != options_.allowed_hosts.end();
    if (request.count("Origin") > 1 || (!same && !named)) return "Another site made this request.";
  }
  const std::string_view site = request.header("Sec-Fetch-Site");
  if ((site == "cross-site" || site == "same-site") && request.header("Sec-Fetch-Mode") != "navigate")
    return "Another site made this request.";
  if ((site == "cross-site" || site == "same-site") && request.method != "GET" && request.method != "HEAD")
    return "Another site made this request.";
  return "";
}

}  // namespace ramet::serve
