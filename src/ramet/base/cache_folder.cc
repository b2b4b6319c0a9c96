#include "ramet/base/cache_folder.h"

#include <cstdlib>

namespace ramet {

std::filesystem::path cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "ramet";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "ramet";
  return {};
}

}  // namespace ramet
