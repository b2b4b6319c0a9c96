#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "ramet/model/model.h"

namespace ramet::front {

/// Whether a name ends as those of files of models do: FILE.ramet or FILE.pt2.
bool is_model_file_name(std::string_view path);

/// Reads a file of a model: that of model::save_model, or a traced module of PyTorch (front/pt2.h). Throws Error for
/// other files.
std::pair<model::Model, model::Units> open_model(const std::filesystem::path& path);

}  // namespace ramet::front
