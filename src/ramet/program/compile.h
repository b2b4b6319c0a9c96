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

/// Of how many weights, in the order of a stage's states, fewer copies are kept than speed asks for. No bit depends on
/// it.
struct WeightCopies {
  int64_t unpacked = 0;  ///< the first so many have no copies in the kernels' layouts
  int64_t remade = 0;    ///< the first so many are not even cast once an update: each reader casts them for itself
  friend bool operator==(const WeightCopies&, const WeightCopies&) = default;
};
inline constexpr int64_t kAllWeights = int64_t{1} << 40;

struct CompileOptions {
  int threads = 1;            ///< of the device: decides scratch sizes, never a bit of a result
  int64_t device_memory = 0;  ///< bytes that the arena may take; 0: no limit
  RecomputeOptions recompute{};
  Rates rates{};          ///< of the machine, by which mode kFit chooses what is recomputed and what is streamed
  WeightCopies copies{};  ///< at least; where device memory does not allow the others, as few as it does allow
  bool ahead = true;  ///< bring what streams while the part before computes, where device memory allows: double buffers
  bool advise = true;  ///< a refusal tries what would fit, which takes as long as some compilations
  PlaceOptions place{};
};

/// The whole way from a step to a program (DESIGN, the way a model takes): a line a pass. Deterministic: equal
/// arguments give equal executables, byte for byte. RAMET_PRINT_PASSES=NAME,... (or "all", or "time") prints what each
/// pass made and took to stderr; builds with RAMET_VERIFY verify after each. Throws Error (refuse.h) when the arena
/// would exceed `device_memory`.
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

/// All passes after which no bit of a result changes any more; no layout has a say in them.
StepGraph decide_bits(StepGraph step);
/// The rest of the way for a layout of several devices, phases or offload, for whoever compiles a step for many.
std::vector<Executable> compile_decided(StepGraph decided, const Layout& layout, const KernelLibrary& library,
                                        const CompileOptions& options = {});

/// Hash of all that `compile`'s result depends on: the step's text, the kernel class, the options, the compiler's
/// version. A saved executable with this key can be used in place of a new one.
Hash compile_key(const StepGraph& step, const KernelLibrary& library, const CompileOptions& options);

}  // namespace ramet::program
