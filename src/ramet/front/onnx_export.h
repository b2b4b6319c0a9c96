#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <functional>
#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/model/model.h"

namespace ramet::front {

/// The first or learned value of a state.
using StateValue = std::function<HostTensor(const std::string& state)>;

struct OnnxWriteOptions {
  int64_t opset = 20;     ///< of the operator set, kLeastWrittenOpset to kMostWrittenOpset
  bool external = false;  ///< numbers of initializers stand in FILE.data; where they are over 2 GiB they always do
};
inline constexpr int64_t kLeastWrittenOpset = 20, kMostWrittenOpset = 28;

/// The graph of a model that an ONNX file holds: a program by its name ("evaluate": the evaluation), or with "" the
/// program "predict"; where there is none, the logits that the evaluation's losses of classes read; else the
/// evaluation. Throws Error naming the programs where there is none of the name.
Graph predictions_of(const model::Model& model, const std::string& program);

/// Behind the name of a state that a graph changes: the output with what it becomes.
inline constexpr const char* kOnnxNextState = ".next";

/// Writes a graph as an ONNX file, with the values of its states as initializers; a state that the graph changes, such
/// as a cache, is an input NAME and an output NAME.next. Ops that ONNX lacks are functions of the file
/// (front/onnx_writer.h). Throws UnsupportedOp that lists the ops for which there is no form here.
void write_onnx(const std::filesystem::path& path, const Graph& graph, const std::string& name, const StateValue& value,
                const OnnxWriteOptions& options = {});

/// The states of a model with the numbers that they begin with. Throws Error at a state that the model draws.
StateValue first_values(const model::Model& model);

}  // namespace ramet::front
