#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::serve {

/// Makes one file of a page: each script and style sheet that `html` names is put in its place, icons become data
/// addresses, preloads go, and `data`, the text of a JSON object, becomes window.__RAMET_EXPORT__ before the first
/// script. `file` gives the text of a file of the page by its name, as "assets/app.js". Throws Error when a file that
/// is named is not there.
std::string single_file_page(std::string_view html, std::string_view data,
                             const std::function<std::optional<std::string>(const std::string&)>& file);

/// JSON as it may stand in a script element: no '<', and no line ends that scripts do not allow.
std::string script_json(std::string_view json);

/// Bytes in base64.
std::string base64_text(std::string_view bytes);

}  // namespace ramet::serve
