#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::track {

/// Whether brackets nest deeper than 64 levels: deeper than any event or configuration needs. Printing and walking such
/// a text would recurse as deep.
bool is_deep_json(std::string_view text);

/// JSON out of a file of any origin. Texts that are no JSON or are deep give `null`. Never fails.
nlohmann::json parse_json(std::string_view text);

/// On one line. Bytes that are not UTF-8 become U+FFFD; NaN and infinities become null.
std::string dump_json(const nlohmann::json& value);

/// The text with each byte that is not UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace ramet::track
