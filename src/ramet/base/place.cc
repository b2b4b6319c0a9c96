#include "ramet/base/place.h"

namespace ramet {
namespace {

thread_local const std::string* innermost = nullptr;

}  // namespace

std::string short_place(std::string_view path, int64_t line) {
  const size_t file = path.rfind('/');
  const size_t folder =
      file == std::string_view::npos || file == 0 ? std::string_view::npos : path.rfind('/', file - 1);
  return std::string(folder == std::string_view::npos ? path : path.substr(folder + 1)) + ":" + std::to_string(line);
}

v0::PlaceScope::PlaceScope(std::string_view file, int64_t line) : place_(short_place(file, line)), before_(innermost) {
  innermost = &place_;
}

v0::PlaceScope::~PlaceScope() { innermost = before_; }

const std::string* v0::PlaceScope::current() { return innermost; }

}  // namespace ramet
