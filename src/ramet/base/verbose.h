#pragma once

#include <string_view>

namespace ramet {

/// Whether the environment variable RAMET_VERBOSE names the topic ("dispatch").
bool is_verbose(std::string_view topic);

}  // namespace ramet
