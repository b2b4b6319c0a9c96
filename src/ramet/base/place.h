#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ramet/base/house.h"
#include "ramet/place.h"

namespace ramet {

/// "model/bert.cc:46" of a path and a line: folder, file and line, without the path of the tree.
std::string short_place(std::string_view path, int64_t line);

}  // namespace ramet
