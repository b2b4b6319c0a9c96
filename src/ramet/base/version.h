#pragma once

#include "ramet/base/house.h"

namespace ramet {

/// Ramet's version, as "0.1.0".
const char* version();

}  // namespace ramet
