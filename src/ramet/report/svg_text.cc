#include "ramet/report/svg_text.h"

namespace ramet {

std::string svg_text(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32)
      result += c;
  }
  return result;
}

}  // namespace ramet
