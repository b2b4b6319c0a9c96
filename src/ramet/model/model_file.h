#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "ramet/model/model.h"

namespace ramet::model {

/// Writes a model as one file: text that a person can read (model/model_text.h), and behind it the bytes of large
/// tensors as safetensors. The file is replaced whole or not at all. First values that a function gives are saved as
/// what the function says of each element, so that the file needs no code. docs/model-files.md has the form.
void save_model(const std::filesystem::path& path, const Model& model, const Units& units = {});

/// The model of such a file: its identity is that of the model that was saved. Throws Error with file and line for
/// what is no such file, damaged, of a later form, or contradicts itself.
std::pair<Model, Units> load_model(const std::filesystem::path& path);
/// The same of the file's bytes; `source` names it in messages.
std::pair<Model, Units> parse_model(std::string_view file, const std::string& source);

}  // namespace ramet::model
