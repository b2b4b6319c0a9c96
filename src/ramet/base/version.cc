#include "ramet/base/version.h"

#define RAMET_TEXT_OF(number) #number
#define RAMET_VERSION_TEXT(major, minor, patch) RAMET_TEXT_OF(major) "." RAMET_TEXT_OF(minor) "." RAMET_TEXT_OF(patch)

namespace ramet::v0 {

const char* version() { return RAMET_VERSION_TEXT(RAMET_VERSION_MAJOR, RAMET_VERSION_MINOR, RAMET_VERSION_PATCH); }

}  // namespace ramet::v0
