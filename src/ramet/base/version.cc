#include "ramet/base/version.h"

namespace ramet {

const char* version() { return RAMET_VERSION; }

}  // namespace ramet
