#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::serve {

/// Bytes as a gzip file, at a level from 1 (fast) to 9.
std::string gzip(std::string_view bytes, int level = 3);
/// The reverse. Throws Error for bytes that are no gzip file, and for more than `most` bytes.
std::string gunzip(std::string_view bytes, size_t most = 64 << 20);

/// Whether an Accept-Encoding header takes gzip (RFC 9110, 12.5.3): "gzip", "*", weights of zero refuse.
bool takes_gzip(std::string_view accept_encoding);

}  // namespace ramet::serve
