#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ramet/base/house.h"

namespace ramet::track {

/// An image as PNG (ISO/IEC 15948). `pixels`: height rows of width x channels bytes, from the top; channels: 1 grey, 2
/// grey with alpha, 3 RGB, 4 RGBA. Throws Error when the numbers do not fit each other.
std::string encode_png(int64_t width, int64_t height, int64_t channels, std::span<const uint8_t> pixels);

}  // namespace ramet::track
