#pragma once

#include <cstdint>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/program/kernel_library.h"
#include "ramet/program/place.h"
#include "ramet/transform/fit_activations.h"
#include "ramet/transform/step_graph.h"

namespace ramet::layout {
struct DeviceGraphs;
struct Layout;
}  // namespace ramet::layout

namespace ramet::program {

/// Which weights have fewer copies than speed asks for: the first ones in the order of a stage's states. No bit depends
/// on it.
struct WeightCopies {
  int64_t unblocked = 0;  ///< so many weights have no copies in the kernels' blocked layouts
  int64_t remade = 0;     ///< so many weights are not even cast once an update: each reader casts them for itself
  friend bool operator==(const WeightCopies&, const WeightCopies&) = default;
};
inline constexpr int64_t kAllWeights = int64_t{1} << 40;

struct CompileOptions {
  int threads = 1;            ///< of the device: decides scratch sizes, never a bit of a result
  int64_t device_memory = 0;  ///< bytes that the arena may take; 0: no limit
  RecomputeOptions recompute{};
  Rates rates{};  ///< of the machine; mode kFit chooses by them between recomputing and streaming
  /// The arena is as near to `device_memory` as little time allows (kTimeForLeast): needing more is no error.
  bool least = false;
  /// Copies of weights go before activations are recomputed (mode kFit).
  bool copies_first = false;
  WeightCopies copies{};  ///< the most copies to keep; device memory may leave room for fewer
  /// Double buffers, where device memory allows: load streamed states while the region before computes.
  bool ahead = true;
  bool advise = true;  ///< a refusal searches for changes that would fit, which takes as long as a few compilations
  PlaceOptions place{};
};

/// The whole way from a step to a program (docs/architecture.md): a line a pass. Deterministic: equal
/// arguments give equal executables, byte for byte. RAMET_PRINT_PASSES=NAME,... (or "all", or "time") prints the result
/// and the time of each pass to stderr; builds with RAMET_VERIFY verify after each pass. Throws Error (refuse.h) when
/// the arena would exceed `device_memory`.
Executable compile(StepGraph step, const KernelLibrary& library, const CompileOptions& options = {});

/// The same for a partitioned step, which every bit-deciding pass has seen already: an executable for each stage, which
/// all its devices run. Proves that they match (match.h). Throws Error when a stage's arena would exceed
/// `device_memory`.
std::vector<Executable> compile_layout(const DeviceGraphs& graphs, const KernelLibrary& library,
                                       const CompileOptions& options = {});

/// The whole way for a layout of several devices, phases or offload: a program for each stage. Throws Error, naming the
/// layout's key, when the step cannot be cut so.
std::vector<Executable> compile(StepGraph step, const Layout& layout, const KernelLibrary& library,
                                const CompileOptions& options = {});

/// Runs all passes that decide bits. They do not depend on the layout; later passes change no bit of a result.
StepGraph decide_bits(StepGraph step);
/// The remaining passes for a layout of several devices, phases or offload. For callers that compile one step for many
/// layouts.
std::vector<Executable> compile_decided(StepGraph decided, const Layout& layout, const KernelLibrary& library,
                                        const CompileOptions& options = {});

/// Hash of all that `compile`'s result depends on: the step's text, the kernel class, the options, the compiler's
/// version. A saved executable with this key can be used in place of a new one.
Hash compile_key(const StepGraph& step, const KernelLibrary& library, const CompileOptions& options);

}  // namespace ramet::program
