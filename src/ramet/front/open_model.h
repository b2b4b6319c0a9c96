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
/// Options of an ONNX file may stand behind its name: FILE.onnx?batch=16&loss=cross_entropy:logits:labels.
std::pair<model::Model, model::Units> open_model(const std::filesystem::path& path, OnnxModelOptions onnx = {});
/// What the file says of the recipe that trains it, where the recipe itself says nothing: TOML, "" for most files, and
/// for one that is not there.
std::string recipe_of_model(const std::filesystem::path& path);
/// Writes a file that open_model reads as the same model, and that needs no other files and options.
void keep_model(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace ramet::front
