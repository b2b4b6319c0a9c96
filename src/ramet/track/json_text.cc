#include "ramet/track/json_text.h"

#include <nlohmann/json.hpp>

namespace ramet::track {

using nlohmann::json;

bool is_deep_json(std::string_view text) {
  constexpr size_t kMostDepth = 64;
  size_t depth = 0;
  for (const char c : text) {
    if ((c == '{' || c == '[') && ++depth > kMostDepth) return true;
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return false;
}

json parse_json(std::string_view text) {
  if (is_deep_json(text)) return nullptr;
  json value = json::parse(text, nullptr, false);
  return value.is_discarded() ? json(nullptr) : value;
}

std::string dump_json(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string valid_utf8(std::string_view text) {
  const std::string quoted = dump_json(json(std::string(text)));
  return json::parse(quoted).get<std::string>();
}

}  // namespace ramet::track
