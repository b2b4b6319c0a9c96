#pragma once

#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet {

/// "a, b or c"
std::string joined(const std::vector<std::string>& words);
/// `text` in lines of at most `width` characters, each after `indent` and ended.
std::string wrapped(const std::string& text, const std::string& indent, size_t width);

}  // namespace ramet
