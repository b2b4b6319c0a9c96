#pragma once

#include <string>

namespace ramet {

/// Text as it may stand in an SVG file: what means something there is written otherwise, control characters are left
/// out.
std::string svg_text(const std::string& text);

}  // namespace ramet
