#include "ramet/base/toml_text.h"

#include <cstdio>

namespace ramet {

std::string quoted_toml(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    char code[8];
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      std::snprintf(code, sizeof code, "\\u%04X", c);
      text += code;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace ramet
