#pragma once

#include <filesystem>

namespace ramet {

/// Where Ramet keeps what can be made again: $XDG_CACHE_HOME/ramet or ~/.cache/ramet; empty where there is neither.
std::filesystem::path cache_folder();

}  // namespace ramet
