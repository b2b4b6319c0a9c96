#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/serve/access.h"
#include "ramet/serve/assets.h"
#include "ramet/serve/http.h"
#include "ramet/serve/live.h"
#include "ramet/serve/store.h"
#include "ramet/serve/url.h"

namespace ramet::serve {

/// What the API answers with.
struct ApiContext {
  Store& store;
  EventHub& hub;
  AccessControl& access;
  const PageFiles& page;
  std::string url;  ///< "http://127.0.0.1:8080"
  bool read_only = false;
  std::function<HttpCounts()> counts{};     ///< of the server
  std::function<double()> index_seconds{};  ///< of the last look at the runs
};

/// One request to a route.
struct ApiCall {
  const ApiContext& context;
  const HttpRequest& request;
  std::vector<std::string> arguments;  ///< what stands for {names} in the path, in order
  Query query;
};

/// An entry of the API. docs/openapi.json describes each; a test compares.
struct ApiRoute {
  std::string_view method, pattern;  ///< "/api/v1/runs/{id}"; "{id}.csv" is allowed, too
  HttpResponse (*answer)(ApiCall&);
  bool changes = false;          ///< refused by a server that is read-only
  std::string_view body_type{};  ///< the only Content-Type that its body may have
};
/// All routes: one list for the server, the test and the documentation.
const std::vector<ApiRoute>& api_routes();

/// The route of a request, and what stands for its names. Methods that a path does have come in `allowed` when the
/// method is not among them.
struct RouteMatch {
  const ApiRoute* route = nullptr;
  std::vector<std::string> arguments;
  std::vector<std::string_view> allowed;
};
RouteMatch match_route(std::string_view method, const std::vector<std::string>& segments);

/// Answers in JSON. Numbers that are not finite are null.
HttpResponse json_response(const nlohmann::json& value, int status = 200);
/// An error as RFC 9457 prescribes.
HttpResponse problem(int status, std::string_view title, const std::string& detail = "");
/// The same with the parts of an error as members. What is not there has the status 404.
HttpResponse problem_of(const Error& error);
/// Fails with a status that a handler chose.
class HttpFailure : public std::runtime_error {
 public:
  HttpFailure(int status, const std::string& detail) : std::runtime_error(detail), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// "Not Found" and so on.
std::string_view status_text(int status);

/// The entity tag of a body: "\"HASH\"".
std::string etag_of(std::string_view body);
/// Whether a list of tags, as in If-None-Match, names this one or "*". Weak tags count as strong ones.
bool names_tag(std::string_view list, std::string_view tag);

/// The body as a JSON object. Throws HttpFailure: no JSON, no object, or nested too deep.
nlohmann::json json_object(const HttpRequest& request);
/// The same; also throws for a key not in `known`.
nlohmann::json json_body(const HttpRequest& request, std::initializer_list<std::string_view> known);

}  // namespace ramet::serve
