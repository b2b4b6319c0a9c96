#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "ramet/front/onnx_model.h"
#include "ramet/model/model.h"

namespace ramet::front {

/// Whether a name ends as those of files of models do: FILE.ramet, FILE.pt2 or FILE.onnx.
bool is_model_file_name(std::string_view path);

/// Reads a file of a model: that of model::save_model, a traced module of PyTorch (front/pt2.h), or an ONNX file
/// (front/onnx_model.h), for which there are options. Throws Error for other files.
std::pair<model::Model, model::Units> open_model(const std::filesystem::path& path, const OnnxModelOptions& onnx = {});

}  // namespace ramet::front
