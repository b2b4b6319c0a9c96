#pragma once

#include <cstdint>

#include "ramet/base/house.h"

namespace ramet {

/// Gives what malloc holds free back to the system, where the C library can.
void trim_heap();

/// Takes the pages of libraries out of this process that are as their files have them: code, and data that nobody may
/// write. Importing a large library reads most of such pages once. A page comes back from the system's cache of files
/// when it is read again. Returns the bytes that are gone; 0 where the system does not tell what is mapped.
int64_t leave_library_pages();

}  // namespace ramet
