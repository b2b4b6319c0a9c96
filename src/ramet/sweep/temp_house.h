#pragma once
#include "ramet/base/rng.h"
#include "ramet/base/house.h"
namespace ramet::sweep {  // TEMP
using namespace ramet::recipe;
}
namespace ramet::report {
using namespace ramet::sweep;
}
namespace ramet {
constexpr auto kTempSweep = static_cast<RandomPurpose>(10);
}
