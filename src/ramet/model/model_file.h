#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "ramet/model/model.h"

namespace ramet::model {

/// Writes a model as one file: text that a person can read (model/model_text.h), and behind it the bytes of large
/// tensors as safetensors. The file is replaced whole or not at all. First values that a function gives are saved as
/// numbers, one an element, so that the file needs no code. docs/model-files.md describes the format.
void save_model(const std::filesystem::path& path, const Model& model, const Units& units = {});

/// Reads the model of such a file. Its identity is that of the saved model. Throws Error with file and line when the
/// file is of another kind, damaged, of a later version, or contradicts itself.
std::pair<Model, Units> load_model(const std::filesystem::path& path);
/// The same of the file's bytes; `source` names it in messages.
std::pair<Model, Units> parse_model(std::string_view file, const std::string& source);

}  // namespace ramet::model
