#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/front/importer.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// What an ONNX file does not say of itself.
struct OnnxModelOptions {
  std::map<std::string, int64_t> bind{};  ///< extents of symbolic dimensions, and values of integer inputs
  /// The loss: an output that is one number, or "cross_entropy:LOGITS:LABELS" of an output and a new input of classes.
  /// "": the only scalar output of floats, if any.
  std::string loss{};
  /// Patterns (* for any text) of the initializers that are trained, and of those that are not. Without patterns, all
  /// that look like weights are (docs/onnx.md).
  std::vector<std::string> train{}, freeze{};
};
/// "batch=16,sequence=128"; throws Error for other forms.
std::map<std::string, int64_t> parse_onnx_bind(const std::string& text);

/// Whether a file begins as those of ONNX do, and its name ends in .onnx.
bool is_onnx_file_name(std::string_view path);

/// Reads an ONNX file as a model: docs/onnx.md.
ImportedModel import_onnx_model(const std::filesystem::path& path, const OnnxModelOptions& options = {});
/// The same of the file's bytes; `folder` holds external data.
ImportedModel import_onnx_model(const OnnxModel& file, const std::string& name, const std::filesystem::path& folder,
                                const OnnxModelOptions& options);

}  // namespace ramet::front
