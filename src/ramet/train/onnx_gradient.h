#pragma once

#include "ramet/base/house.h"

#include <map>
#include <string>

#include "ramet/base/host_tensor.h"
#include "ramet/ir/graph.h"

namespace ramet::train {

/// What a check of a program's gradient found.
struct GradientCheck {
  enum class Kind : uint8_t {
    kChecked,  ///< it agrees with finite differences
    kNone,     ///< no input has a gradient: `message` says why
    kUnsure,   ///< the function has no derivative at any point that was tried
    kWrong
  };
  Kind kind = Kind::kChecked;
  std::string message{};
};
/// "checked", "none", "unsure", "wrong"
std::string_view name_of(GradientCheck::Kind kind);

/// Compares the gradient of a random projection of the graph's floating outputs, by its data inputs of floats, with
/// finite differences of the same function in double (kernel/interpret.h): along a random direction of each input and
/// of all inputs together. The gradient is computed by the CPU's kernels in the graph's own types. `feeds` is the first
/// point that is tried; points near it are tried where the function has no derivative there.
GradientCheck check_gradient(const Graph& graph, const std::map<std::string, HostTensor>& feeds);

}  // namespace ramet::train
