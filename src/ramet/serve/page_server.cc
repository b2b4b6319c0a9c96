#include "ramet/serve/page_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/serve/api.h"
#include "ramet/serve/gzip.h"

namespace ramet::serve {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLeastCompressed = 1 << 10;
constexpr const char* kPagePolicy =
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'";

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

HttpResponse html_page(int status, const std::string& head, const std::string& body) {
  return {.status = status,
          .headers = {{"Content-Type", "text/html; charset=utf-8"}, {"Cache-Control", "no-store"}},
          .body = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Ramet</title>" + head +
                  "</head>\n<body>\n" + body + "</body></html>\n"};
}

bool has_header(const HttpResponse& response, std::string_view name) {
  return std::any_of(response.headers.begin(), response.headers.end(),
                     [&](const auto& header) { return same_letters(header.first, name); });
}

std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (same_letters(key, name)) return value;
  return "";
}

void add_header(HttpResponse& response, const char* name, const char* value) {
  if (!has_header(response, name)) response.headers.emplace_back(name, value);
}

bool is_compressible(const std::string& type) {
  constexpr std::array<std::string_view, 6> kTypes = {
      "application/json", "application/problem+json", "text/html", "text/plain", "text/csv", "text/markdown"};
  return std::any_of(kTypes.begin(), kTypes.end(), [&](std::string_view start) { return type.starts_with(start); });
}

/// Entity tags, "not modified", compression, and the headers that keep browsers from doing harm.
void finish(const HttpRequest& request, HttpResponse& response) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  add_header(response, "X-Content-Type-Options", "nosniff");
  add_header(response, "Referrer-Policy", "no-referrer");
  add_header(response, "Content-Security-Policy", kPagePolicy);
  add_header(response, "X-Frame-Options", "DENY");
  add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
  add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
  add_header(response, "Cache-Control", "private, no-cache");
  if (response.stream || response.body.empty()) return;
  const bool tagged = reads && response.status == 200 && header_of(response, "Cache-Control") != "no-store";
  const std::string tag = tagged ? etag_of(response.body) : "";
  if (tagged && names_tag(request.header("If-None-Match"), tag)) {
    response.status = 304;
    response.body.clear();
    std::erase_if(response.headers, [](const auto& header) {
      return same_letters(header.first, "Content-Type") || same_letters(header.first, "Content-Encoding");
    });
    response.headers.emplace_back("ETag", tag);
    return;
  }
  bool compressed = false;
  if (!has_header(response, "Content-Encoding") && is_compressible(header_of(response, "Content-Type"))) {
    add_header(response, "Vary", "Accept-Encoding");
    if (response.body.size() >= kLeastCompressed && takes_gzip(request.header("Accept-Encoding"))) {
      response.body = gzip(response.body);
      response.headers.emplace_back("Content-Encoding", "gzip");
      compressed = true;
    }
  }
  if (tagged) response.headers.emplace_back("ETag", compressed ? "W/" + tag : tag);
}

std::string type_of_request(const HttpRequest& request) {
  std::string type(request.header("Content-Type"));
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  return type;
}

std::string shown_host(const std::string& host) {
  if (host == "0.0.0.0" || host == "::" || host.empty()) {
    char name[256] = "";
    return ::gethostname(name, sizeof name - 1) == 0 && name[0] ? name : "localhost";
  }
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

bool is_loopback(const std::string& host) {
  const auto parsed = parse_host(host.find(':') == std::string::npos ? host : "[" + host + "]");
  return parsed && (parsed->host == "localhost" || parsed->host == "::1" ||
                    (parsed->is_address && parsed->host.starts_with("127.")));
}

fs::path session_file_of(const fs::path& runs, int port) {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path base = state && *state == '/' ? fs::path(state)
                  : home && *home == '/' ? fs::path(home) / ".local/state"
                                         : "";
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(runs, error);
  if (base.empty() || error) return {};
  return base / "ramet" / "serve" / (hash_text(folder.string()).hex() + "-" + std::to_string(port) + ".json");
}

struct PageServer::State {
  PageServerOptions options;
  PageFiles page;
  EventHub hub;
  std::string url;
  int port = 0;
  std::unique_ptr<Store> store;
  std::unique_ptr<AccessControl> access;
  std::unique_ptr<ApiContext> context;
  std::unique_ptr<RunWatcher> watcher;
  std::unique_ptr<HttpServer> server;
  std::atomic<bool> ready = false;

  explicit State(PageServerOptions given) : options(std::move(given)), page(options.ui_dir) {}

  HttpResponse answer(const HttpRequest& request) {
    if (!ready) return problem(503, status_text(503), "The server reads the runs. Ask again in a moment.");
    HttpResponse response;
    try {
      response = checked(request);
    } catch (const HttpFailure& failure) {
      response = problem(failure.status(), status_text(failure.status()), failure.what());
    } catch (const Error& error) {
      response = problem_of(error);
    } catch (const std::bad_alloc&) {
      response = problem(503, status_text(503), "The server has too little memory for this.");
    } catch (const std::exception& error) {
      response = problem(500, status_text(500), std::string("A fault of Ramet: ") + error.what());
    }
    finish(request, response);
    return response;
  }

  /// Refuses who may not ask; then answers.
  HttpResponse checked(const HttpRequest& request) {
    if (const std::string fault = access->fault_of_origin(request); !fault.empty())
      return problem(403, status_text(403), fault);
    Target target = parse_target(request.target);
    const bool reads = request.method == "GET" || request.method == "HEAD";
    const auto token =
        std::find_if(target.query.begin(), target.query.end(), [](const auto& pair) { return pair.first == "token"; });
    const bool is_page = reads && (target.segments.empty() || target.segments[0] != "api");
    if (is_page && token != target.query.end()) return exchange(target, token->second, request);
    if (!access->user_of(request)) return refuse(request);
    const bool is_api = !target.segments.empty() && (target.segments[0] == "api" || target.path == "/metrics");
    return is_api ? call(target, request) : file(target, request);
  }

  /// The first visit: the token becomes a session. Then the browser goes on by itself to the address without the token:
  /// a redirection would come without the cookie when another site held the link.
  HttpResponse exchange(const Target& target, const std::string& token, const HttpRequest& request) {
    const auto cookie = request.method == "GET" ? access->open_session(token) : std::nullopt;
    if (!cookie && !access->user_of(request)) return refuse(request);
    std::string query;
    for (const auto& [key, value] : target.query)
      if (key != "token") query += (query.empty() ? "?" : "&") + percent_encode(key) + "=" + percent_encode(value);
    // Always a path of this server: "//host" would be another one.
    std::string path = "/";
    for (size_t i = 0; i < target.segments.size(); ++i) path += (i ? "/" : "") + percent_encode(target.segments[i]);
    while (path.starts_with("//")) path.erase(0, 1);
    const std::string next = html_text(path + query);
    HttpResponse response = html_page(200, "<meta http-equiv=\"refresh\" content=\"0;url=" + next + "\">",
                                      "<p><a href=\"" + next + "\">On to the page</a></p>\n");
    if (cookie) response.headers.emplace_back("Set-Cookie", *cookie);
    return response;
  }

  HttpResponse refuse(const HttpRequest& request) const {
    if (request.header("Accept").find("text/html") != std::string_view::npos)
      return html_page(401, "",
                       "<h1>Ramet</h1>\n<p>This address needs a session. Open the link that <code>ramet serve</code> "
                       "printed; it works once. A page that is open already gives a new one (Settings), and so does a "
                       "server that is started again.</p>\n");
    HttpResponse response =
        problem(401, status_text(401), "A session is needed, or a bearer token (ramet serve --token-file FILE).");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }

  HttpResponse call(const Target& target, const HttpRequest& request) {
    RouteMatch match = match_route(request.method == "HEAD" ? "GET" : request.method, target.segments);
    if (!match.route && match.allowed.empty()) return problem(404, status_text(404), "The API has no such address.");
    if (!match.route) {
      std::string allowed;
      for (const auto method : match.allowed) allowed += (allowed.empty() ? "" : ", ") + std::string(method);
      HttpResponse response = problem(405, status_text(405), "This address takes " + allowed + ".");
      response.headers.emplace_back("Allow", allowed);
      return response;
    }
    if (match.route->changes && options.read_only)
      return problem(403, status_text(403), "This server was started with --read-only.");
    const std::string type = type_of_request(request);
    const bool as_text = match.route->body_type == "text/markdown" && type == "text/plain";
    if (!match.route->body_type.empty() && !as_text && !same_letters(type, match.route->body_type))
      return problem(415, status_text(415), "The body must be " + std::string(match.route->body_type) + ".");
    ApiCall call{*context, request, std::move(match.arguments), Query(target.query)};
    return match.route->answer(call);
  }

  HttpResponse file(const Target& target, const HttpRequest& request) {
    if (request.method != "GET" && request.method != "HEAD") {
      HttpResponse response = problem(405, status_text(405), "The page takes GET.");
      response.headers.emplace_back("Allow", "GET, HEAD");
      return response;
    }
    std::string name;
    for (const auto& segment : target.segments) name += (name.empty() ? "" : "/") + segment;
    if (name.empty()) name = "index.html";
    if (auto found = page.answer(name, request.header("Accept-Encoding"))) return std::move(*found);
    if (name == "index.html") return plain_list();
    return problem(404, status_text(404), "The page has no such file.");
  }

  /// What a build without the page shows.
  HttpResponse plain_list() {
    std::string rows;
    for (const auto& run : store->read()->runs(first_runs("", 200)).runs) {
      const std::string path = "/api/v1/runs/" + percent_encode(run.id);
      rows += "<tr><td><a href=\"" + html_text(path) + "\">" + html_text(run.id) + "</a></td><td>" +
              html_text(run.name) + "</td><td>" + html_text(run.status) + "</td><td>" + std::to_string(run.steps) +
              "</td><td>" + html_text(run.started) + "</td></tr>\n";
    }
    return html_page(200, "",
                     "<h1>Runs</h1>\n<p>This build of Ramet has no page. Its API works: see docs/serve.md.</p>\n<table>"
                     "<tr><th>run</th><th>name</th><th>status</th><th>steps</th><th>started</th></tr>\n" +
                         rows + "</table>\n");
  }

  void start(const IndexProgress& progress) {
    if (!options.access.token && options.access.proxy_header.empty() && !is_loopback(options.http.host))
      throw Error({.what = "everybody who reaches this machine could read and change the runs",
                   .where = "--host",
                   .found = "'" + options.http.host + "' without a token",
                   .expected = "a token, or --trust-proxy-header where a reverse proxy lets in those who may",
                   .remedy = "Leave out --no-token"});
    // First of all the port, so that a person who has to choose another one does not wait for the runs.
    server = std::make_unique<HttpServer>(options.http, [this](const HttpRequest& request) { return answer(request); });
    port = server->port();
    url = "http://" + shown_host(options.http.host) + ":" + std::to_string(port);
    if (options.access.session_file.empty() && options.http.port != 0)
      options.access.session_file = session_file_of(options.runs, port);
    access = std::make_unique<AccessControl>(options.access, port);
    store = std::make_unique<Store>(options.runs, options.http.workers, progress);
    watcher = std::make_unique<RunWatcher>(*store, hub);
    context = std::make_unique<ApiContext>(ApiContext{*store, hub, *access, page, url, options.read_only,
                                                      [this] { return server->counts(); },
                                                      [this] { return watcher->last_seconds(); }});
    ready = true;
  }

  ~State() {
    hub.close();
    server.reset();
    watcher.reset();
  }
};

PageServer::PageServer(PageServerOptions options, const IndexProgress& progress) {
  if (!can_serve()) (void)HttpServer({}, {});  // says what is missing, before any work
  state_ = std::make_unique<State>(std::move(options));
  state_->start(progress);
}

PageServer::~PageServer() = default;

int PageServer::port() const { return state_->port; }
const std::string& PageServer::url() const { return state_->url; }
std::string PageServer::link() const {
  return state_->access->asks_for_token() ? state_->url + "/?token=" + state_->access->new_link_token()
                                          : state_->url + "/";
}
std::string PageServer::remark() const { return state_->store->remark(); }
bool PageServer::has_page() const { return state_->page.has_page(); }

}  // namespace ramet::serve
