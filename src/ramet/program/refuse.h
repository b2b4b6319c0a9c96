#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error_types.h"
#include "ramet/program/compile.h"

namespace ramet::program {

/// Bytes that the step would need under another kind of recomputation; nothing when they are not known.
using BytesUnder = std::function<std::optional<int64_t>(const RecomputeOptions&)>;

/// A possible change, and the bytes that the step would then need.
struct Advice {
  std::string change;
  int64_t bytes = 0;
};

/// A step that needs more memory than its device has.
class StepDoesNotFit : public DoesNotFit {
 public:
  StepDoesNotFit(ErrorParts parts, int64_t needed, int stage)
      : DoesNotFit(std::move(parts)), needed_(needed), stage_(stage) {}
  int64_t needed() const { return needed_; }  ///< bytes
  int stage() const { return stage_; }        ///< of the pipeline

 private:
  int64_t needed_;
  int stage_;
};

/// Throws the Error (StepDoesNotFit) of a program that does not fit into `options.device_memory`: the bytes of each
/// class, the node at which most bytes are live, and the changes that would make the step fit, each with an estimate.
[[noreturn]] void refuse_memory(const Executable& executable, const CompileOptions& options,
                                const BytesUnder& plan_bytes, const std::vector<Advice>& more = {});

}  // namespace ramet::program
