#include "ramet/base/words.h"

#include <algorithm>

namespace ramet {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string wrapped(const std::string& text, const std::string& indent, size_t width) {
  std::string result, line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t space = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, space - begin);
    begin = space + 1;
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      result += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? result : result + indent + line + "\n";
}

bool matches_pattern(const std::string& pattern, const std::string& name) {
  // After a star, what follows it is tried at each place in turn, the last star alone being taken back.
  size_t p = 0, n = 0, star = std::string::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ramet
