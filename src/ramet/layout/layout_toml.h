#pragma once

#include <string>
#include <vector>

#include "ramet/base/toml.h"
#include "ramet/layout/layout.h"

namespace ramet::layout {

/// The settings that a table of TOML holds, each with `source`:LINE and "layout.KEY" as its place. For the few files
/// that already read TOML. Throws Error for values that no key takes.
std::vector<LayoutSetting> layout_settings(const toml::table& table, const std::string& source);

}  // namespace ramet::layout
