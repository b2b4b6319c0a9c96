// docs/openapi.json and the router's table describe the same API.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/file.h"
#include "ramet/serve/api.h"

namespace ramet::tests {
namespace {

using nlohmann::json;

json document() { return json::parse(read_file(std::string(RAMET_SOURCE_DIR) + "/docs/openapi.json")); }

TEST(OpenApi, HasEveryRouteAndNoOther) {
  std::set<std::string> routes, described;
  for (const auto& route : api_routes()) routes.insert(std::string(route.method) + " " + std::string(route.pattern));
  const json whole = document();
  for (const auto& [path, methods] : whole["paths"].items())
    for (const auto& [method, operation] : methods.items()) {
      std::string word = method;
      std::transform(word.begin(), word.end(), word.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
      described.insert(word + " " + path);
    }
  EXPECT_EQ(described, routes);
  EXPECT_EQ(routes.size(), api_routes().size());
}

TEST(OpenApi, NamesParametersAndBodies) {
  const json paths = document()["paths"];
  for (const auto& route : api_routes()) {
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    const json& operation = paths.at(std::string(route.pattern)).at(method);
    std::set<std::string> named;
    for (const auto& parameter : operation.value("parameters", json::array()))
      if (parameter["in"] == "path") named.insert(parameter["name"].get<std::string>());
    std::set<std::string> wanted;
    for (size_t at = route.pattern.find('{'); at != std::string_view::npos; at = route.pattern.find('{', at + 1))
      wanted.insert(std::string(route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1)));
    EXPECT_EQ(named, wanted) << route.pattern;
    EXPECT_EQ(operation.contains("requestBody"), !route.body_type.empty()) << route.pattern;
    if (!route.body_type.empty()) {
      EXPECT_TRUE(operation["requestBody"]["content"].contains(std::string(route.body_type))) << route.pattern;
    }
    EXPECT_TRUE(operation["responses"].contains("default")) << route.pattern;
  }
}

/// Every "$ref" leads somewhere.
void check_references(const json& whole, const json& part) {
  if (part.is_object() && part.contains("$ref")) {
    const std::string to = part["$ref"].get<std::string>().substr(1);
    EXPECT_TRUE(whole.contains(json::json_pointer(to))) << to;
  }
  if (part.is_structured())
    for (const auto& inner : part) check_references(whole, inner);
}

TEST(OpenApi, ReferencesLeadSomewhere) {
  const json whole = document();
  EXPECT_EQ(whole["openapi"], "3.1.0");
  check_references(whole, whole);
}

}  // namespace
}  // namespace ramet::tests
