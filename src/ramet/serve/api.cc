#include "ramet/serve/api.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"

namespace ramet::serve {
namespace {

using nlohmann::json;

constexpr int kMostDepth = 64;

/// Whether a path's segment fits a pattern's: "runs", "{id}", "{id}.csv". What stands for the name goes to `argument`.
bool fits(std::string_view pattern, const std::string& segment, std::string* argument) {
  if (!pattern.starts_with('{')) return pattern == segment;
  const std::string_view end = pattern.substr(pattern.find('}') + 1);
  if (segment.size() <= end.size() || !segment.ends_with(end)) return false;
  *argument = segment.substr(0, segment.size() - end.size());
  return true;
}

std::optional<std::vector<std::string>> fits(std::string_view pattern, const std::vector<std::string>& segments) {
  std::vector<std::string> arguments;
  size_t index = 0;
  for (size_t at = 1; at <= pattern.size(); ++index) {
    const size_t end = std::min(pattern.find('/', at), pattern.size());
    std::string argument;
    if (index >= segments.size() || !fits(pattern.substr(at, end - at), segments[index], &argument))
      return std::nullopt;
    if (!argument.empty()) arguments.push_back(std::move(argument));
    at = end + 1;
  }
  if (index != segments.size()) return std::nullopt;
  return arguments;
}

/// Whether JSON text nests deeper than any request needs; a parser would recurse as deep.
bool is_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if ((c == '{' || c == '[') && ++depth > kMostDepth) return true;
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return false;
}

}  // namespace

RouteMatch match_route(std::string_view method, const std::vector<std::string>& segments) {
  RouteMatch match;
  for (const auto& route : api_routes()) {
    auto arguments = fits(route.pattern, segments);
    if (!arguments) continue;
    match.allowed.push_back(route.method);
    if (route.method != method) continue;
    match.route = &route;
    match.arguments = std::move(*arguments);
    return match;
  }
  return match;
}

HttpResponse json_response(const json& value, int status) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
}

std::string_view status_text(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 421: return "Misdirected Request";
    case 501: return "Not Implemented";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 507: return "Insufficient Storage";
    default: return "Error";
  }
}

namespace {

HttpResponse problem_response(int status, json members) {
  members["type"] = "about:blank";
  members["status"] = status;
  HttpResponse response = json_response(members, status);
  response.headers = {{"Content-Type", "application/problem+json"}};
  return response;
}

}  // namespace

HttpResponse problem(int status, std::string_view title, const std::string& detail) {
  json members = {{"title", title}};
  if (!detail.empty()) members["detail"] = detail;
  return problem_response(status, std::move(members));
}

HttpResponse problem_of(const Error& error) {
  const ErrorParts& parts = error.parts();
  // What is not there is said in these words everywhere.
  const bool missing = parts.what.starts_with("no such") || parts.what.starts_with("the run has no");
  const int status = missing ? 404 : error.kind() == ErrorKind::kUsage ? 400 : 500;
  json members = {{"title", status_text(status)}, {"detail", error.what()}};
  for (const auto& [key, text] : {std::pair{"where", &parts.where},
                                  {"found", &parts.found},
                                  {"expected", &parts.expected},
                                  {"remedy", &parts.remedy}})
    if (!text->empty()) members[key] = *text;
  // "filter, column 12": where the page underlines it.
  constexpr std::string_view kColumn = ", column ";
  if (const size_t at = parts.where.rfind(kColumn); at != std::string::npos) {
    const std::string number = parts.where.substr(at + kColumn.size());
    if (!number.empty() && number.size() < 9 && number.find_first_not_of("0123456789") == std::string::npos)
      members["position"] = std::stoi(number) - 1;
  }
  return problem_response(status, std::move(members));
}

std::string etag_of(std::string_view body) { return "\"" + hash_text(body).hex() + "\""; }

bool names_tag(std::string_view list, std::string_view tag) {
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    std::string_view entry = list.substr(at, end - at);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    if (entry.starts_with("W/")) entry.remove_prefix(2);
    if (entry == "*" || (!entry.empty() && entry == tag)) return true;
    at = end + 1;
  }
  return false;
}

json json_object(const HttpRequest& request) {
  if (is_deep(request.body)) throw HttpFailure(400, "The JSON of the body nests too deep.");
  json body = json::parse(request.body, nullptr, false);
  if (!body.is_object()) throw HttpFailure(400, "The body is no JSON object.");
  return body;
}

json json_body(const HttpRequest& request, std::initializer_list<std::string_view> known) {
  json body = json_object(request);
  for (const auto& [key, value] : body.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw HttpFailure(400, "The body has an unknown key: '" + key.substr(0, 120) + "'.");
  return body;
}

}  // namespace ramet::serve
