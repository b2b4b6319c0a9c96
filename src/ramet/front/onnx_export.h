#pragma once

#include "ramet/base/house.h"

#include <functional>
#include <string>

#include "ramet/front/onnx_import.h"

namespace ramet::front {

/// The first or learned value of a state.
using StateValue = std::function<HostTensor(const std::string& state)>;

/// A graph of predictions as an ONNX file of operator set 20 and IR 10, with the values of its states as initializers.
/// Throws UnsupportedOp that lists the ops for which ONNX has no form here.
std::string export_onnx(const Graph& graph, const std::string& name, const StateValue& value);

}  // namespace ramet::front
