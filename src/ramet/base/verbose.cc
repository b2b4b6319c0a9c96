#include "ramet/base/verbose.h"

#include <cstdlib>

namespace ramet {

bool is_verbose(std::string_view topic) {
  static const std::string_view topics = [] {
    const char* named = std::getenv("RAMET_VERBOSE");
    return std::string_view(named ? named : "");
  }();
  return topics.find(topic) != std::string_view::npos;
}

}  // namespace ramet
