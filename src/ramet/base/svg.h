#pragma once

#include <string>

#include "ramet/base/house.h"

namespace ramet {

/// Text as it may stand in an SVG file: what means something there is written otherwise, control characters are left
/// out.
std::string svg_text(const std::string& text);

/// An SVG file under way: what all pictures have in common.
class SvgPicture {
 protected:
  /// The head of the file, and white paper. Pixels.
  void open(double width, double height);
  /// As printf, up to 511 characters.
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...);
  /// A line of a legend: a square of a colour, its top left corner at (x, y), and what that colour means.
  void swatch(double x, double y, const char* colour, const std::string& meaning);
  std::string close() { return text_ + "</svg>\n"; }

  std::string text_;
};

}  // namespace ramet
