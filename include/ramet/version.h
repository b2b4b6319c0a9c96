#pragma once

/// Version of the headers. While the major version is 0, a new minor version may change the interface.
#define RAMET_VERSION_MAJOR 0
#define RAMET_VERSION_MINOR 1
#define RAMET_VERSION_PATCH 0

/// Marks the classes and functions that the shared library exports, for users to call. The attributes are those of GCC
/// and Clang.
#define RAMET_API __attribute__((visibility("default")))
/// Marks nested types of an exported class that stay inside the library. Users see their names, not their
/// definitions.
#define RAMET_PRIVATE __attribute__((visibility("hidden")))

/// The public names are in namespace ramet. The linker sees them in ramet::v0, so that it refuses a program that was
/// compiled for another version of the interface. Library code writes v0 before public names, because the engine has
/// its own names in namespace ramet.
#ifdef RAMET_INSIDE
namespace ramet::v0 {}
#else
#define RAMET_OUTSIDE
namespace ramet {
inline namespace v0 {}
}  // namespace ramet
#endif

namespace ramet::v0 {

/// Version of the library that the program runs with, such as "0.1.0".
RAMET_API const char* version();

}  // namespace ramet::v0
