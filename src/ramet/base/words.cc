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

}  // namespace ramet
