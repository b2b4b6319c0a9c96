#pragma once

#include <functional>
#include <optional>

#include "ramet/program/compile.h"

namespace ramet {

/// Bytes that the step would need under another kind of recomputation; nothing where that cannot be told.
using PlanBytes = std::function<std::optional<int64_t>(const RecomputeOptions&)>;

/// Throws the Error of a program that does not fit into `options.device_memory`: what needs how much, at which node the
/// most is alive, and what would make it fit, each with an estimate.
[[noreturn]] void refuse_memory(const Executable& executable, const CompileOptions& options,
                                const PlanBytes& plan_bytes);

}  // namespace ramet
