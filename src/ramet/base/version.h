#pragma once

#include "ramet/base/house.h"
#include "ramet/version.h"

namespace ramet {

using v0::version;

}  // namespace ramet
