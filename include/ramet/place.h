#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/version.h"

namespace ramet::v0 {

/// Another place than the line of the C++ call, for programs in other languages that call the ops: while it lives, ops,
/// inputs, weights and errors of this thread name this file and line. The innermost one counts.
class RAMET_API PlaceScope {
 public:
  PlaceScope(std::string_view file, int64_t line);
  ~PlaceScope();
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

  /// "FOLDER/FILE:LINE" of the innermost one of this thread; null where there is none.
  static const std::string* current();

 private:
  const std::string place_;
  const std::string* const before_;
};

}  // namespace ramet::v0
