#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/model.h"

namespace ramet::v0 {

/// What an ONNX file leaves open (docs/onnx.md).
struct OnnxReading {
  std::map<std::string, int64_t> bind{};  ///< extents of named dimensions, and values of integer inputs
  /// The output that is minimised, or "cross_entropy:LOGITS:LABELS" with a new input of classes. "": the only output
  /// that is one number; a model without one is for predictions.
  std::string loss{};
  std::vector<std::string> train{};   ///< initializers that are weights, * for any text; empty: by rule
  std::vector<std::string> freeze{};  ///< initializers that are no weights
};
/// Reads an ONNX file. Throws Error that lists everything that is not supported.
RAMET_API Model load_onnx(const std::string& path, const OnnxReading& options = {});

struct OnnxWriting {
  /// "evaluate" or a program of the model; "": what the model declares as its outputs, else the logits that its losses
  /// of classes read, else the evaluation.
  std::string program{};
  int64_t opset = 20;          ///< version of the operator set, up to 28
  bool external_data = false;  ///< numbers stand in PATH.data; over 2 GB they always do
  /// A file of Training::save_weights, whose weights the file gets. "": the numbers that the model holds, as a model
  /// that was imported does; weights that are drawn when a training begins are then an Error.
  std::string weights{};
};
/// Writes a model as an ONNX file. Throws Error that names the ops that have no form in ONNX.
RAMET_API void save_onnx(const Model& model, const std::string& path, const OnnxWriting& options = {});

}  // namespace ramet::v0
