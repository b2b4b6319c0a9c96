#pragma once

/// Version of the headers. While the first number is 0, a new second number may change the interface.
#define RAMET_VERSION_MAJOR 0
#define RAMET_VERSION_MINOR 1
#define RAMET_VERSION_PATCH 0

/// Marks what the shared library exports: the classes and functions that users call. The attributes are those of GCC
/// and Clang.
#define RAMET_API __attribute__((visibility("default")))
/// Marks the parts of an exported class that stay inside the library: nested types that users know by their names
/// alone.
#define RAMET_PRIVATE __attribute__((visibility("hidden")))

/// The public names are in namespace ramet. The linker sees them in ramet::v0, so that a program that was compiled for
/// another interface is refused when it is linked. Inside the library, where the engine has names of its own, the
/// public ones are written with v0.
#ifdef RAMET_INSIDE
namespace ramet::v0 {}
#else
#define RAMET_OUTSIDE
namespace ramet {
inline namespace v0 {}
}  // namespace ramet
#endif

namespace ramet::v0 {

/// Version of the library that the program runs with, as "0.1.0".
RAMET_API const char* version();

}  // namespace ramet::v0
