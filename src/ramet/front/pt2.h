#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <string>
#include <string_view>

#include "ramet/front/importer.h"

namespace ramet::front {

/// Whether the file is a zip file, as .pt2 files are. False for a file that cannot be read.
bool is_zip_file(const std::filesystem::path& path);

/// Reads a file of torch.export.save, or of `ramet.torch.save`, which adds a program of evaluation and options. What
/// `options` gives (a loss, names of outputs, ...) has precedence over the file's; its programs and tensors are
/// ignored. The program of another writer is one of training when it has a loss. Throws FormatError for other files,
/// and for damaged and incomplete ones.
TracedModule read_pt2(const std::filesystem::path& path, TracedModule options = {});
/// The same of the file's bytes; `source` names the file in messages.
TracedModule parse_pt2(std::string_view file, const std::string& source, TracedModule options = {});

/// The file's own defaults of a recipe (TOML), which `ramet.torch.save` writes of an optimizer and options; "": it has
/// none.
std::string recipe_of_pt2(const std::filesystem::path& path);

}  // namespace ramet::front
