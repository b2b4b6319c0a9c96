#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet {

/// Bytes in the alphabet of RFC 4648, section 4, with padding.
std::string base64(std::span<const std::byte> bytes);
/// The inverse; nothing when the text is not what `base64` makes of some bytes.
std::optional<std::vector<std::byte>> bytes_of_base64(std::string_view text);

}  // namespace ramet
