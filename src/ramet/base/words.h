#pragma once

#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet {

/// "a, b or c"
std::string joined(const std::vector<std::string>& words);
/// "a, b, c"
template <typename Words>
std::string listed(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}
/// `text` in lines of at most `width` characters, each after `indent` and ended.
std::string wrapped(const std::string& text, const std::string& indent, size_t width);
/// Whether the pattern stands for the whole name: * for any text, ? for any one character.
bool matches_pattern(const std::string& pattern, const std::string& name);

}  // namespace ramet
