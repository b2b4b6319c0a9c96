#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/model.h"

namespace ramet::v0 {

/// A parameter, a buffer or a constant tensor of a PyTorch module.
struct TorchTensor {
  std::string name;  ///< in the module's state_dict ("encoder.layer.0.weight"), or the name of the constant
  TensorType type;
  ArrayView numbers{};    ///< its values, row-major
  std::string storage{};  ///< tensors with the same text are one tensor (tied weights); "": of its own
  bool trained = true;    ///< of a parameter: requires_grad
  /// In place of `numbers`, of a tensor of f32: writes the elements from `first` on. A trained weight is read in pieces
  /// whenever a program gets its first values, so the model has no copy of it; others are read once.
  std::function<void(int64_t first, std::span<float> to)> fill{};
};

/// A module that torch.export has traced: its programs as the text that torch.export writes (models/model.json of a
/// .pt2 file), after stop_gradient marks were set and `run_decompositions({})` was called.
struct TorchModule {
  std::string name = "module";
  std::string training{};    ///< traced in training mode; "": for prediction alone
  std::string evaluation{};  ///< traced in evaluation mode; "": as training, but without random ops
  std::vector<TorchTensor> tensors{};
  /// Names of the program's outputs in order, lists and dictionaries flattened; missing ones are "output_N", from 0.
  std::vector<std::string> outputs{};
  /// The output that is minimised; "": the only scalar output. Ignored where `training` is empty.
  std::string loss{};
  /// The loss is a mean over this many items of a micro-batch: name of a scalar output; "": over samples.
  std::string loss_items{};
  /// With `training`: outputs, no scalars, that each step gives (StepResult::outputs). They take memory of every
  /// micro-batch.
  std::vector<std::string> step_outputs{};
  /// Meaning of weights' dimensions for tensor shards: pattern of weights' names, and one axis a dimension. The first
  /// pattern that matches counts. Weights without axes stay whole.
  std::vector<std::pair<std::string, std::vector<WeightAxis>>> axes{};
  /// Paths of the modules that are parts, as "encoder.layer.*"; empty: lists of modules of one class.
  std::vector<std::string> parts{};
  /// With `training`: whether there is a program that gives the module's outputs. It takes the memory that they need.
  bool predicts = true;
  uint64_t seed = 0;  ///< of random numbers
};

/// The module as a model of Ramet: weights under the names of the module's state_dict, other buffers as states. Throws
/// Error that lists everything that is not supported, with the number of calls, the user's lines and what to do.
RAMET_API Model import_torch(const TorchModule& module);

/// Reads a .pt2 file that `ramet.torch.save` or torch.export.save wrote. `options` gives what the file leaves open; its
/// programs and tensors are ignored.
RAMET_API Model load_torch(const std::string& path, const TorchModule& options = {});

/// The ATen operators that Ramet takes, such as "aten.conv2d".
RAMET_API std::vector<std::string> torch_operators();

}  // namespace ramet::v0
