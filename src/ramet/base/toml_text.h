#pragma once

#include <string>

#include "ramet/base/house.h"

namespace ramet {

/// A text as TOML has it, in quotes, so that it parses back.
std::string quoted_toml(const std::string& value);

}  // namespace ramet
