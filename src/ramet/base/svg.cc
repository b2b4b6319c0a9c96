#include "ramet/base/svg.h"

#include <cstdarg>
#include <cstdio>

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

void SvgPicture::open(double width, double height) {
  add("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
      width, height, width, height);
}

void SvgPicture::add(const char* format, ...) {
  char line[512];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  text_ += line;
}

void SvgPicture::swatch(double x, double y, const char* colour, const std::string& meaning) {
  add("<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.0f\">%s</text>\n", x,
      y, colour, x + 16, y + 10, meaning.c_str());
}

}  // namespace ramet
