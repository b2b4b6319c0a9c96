#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/ops/map_space.h"

namespace ramet::kernel::cuda {

// Map programs as CUDA text. Immediates are arguments of a kernel, never text, so that nodes which differ in a factor
// or a seed share one kernel.

/// The storage type of device/convert.cuh that a tensor has: "BF16".
std::string storage_of(DType dtype);

/// How the text of steps reaches what is around it.
struct MapNames {
  std::function<std::string(int input)> input;  ///< an expression for the register of an input
  std::string immediates;                       ///< an array of floats, in the order of map_immediates
  std::function<std::string(int draw)> factor;  ///< what the draw-th dropout step multiplies its element by
};
/// A line "const float v4 = op_add(v1, v3);" for each input and step; value k is v<k>. `types` as map_value_types gives
/// them. Names are those of device/map_ops.cuh.
std::string print_steps(const MapProgram& program, std::span<const DType> types, const MapNames& names);
/// What the text of the steps reads as immediates.
std::vector<float> map_immediates(const MapProgram& program);
/// The dropout steps, in order.
std::vector<const MapProgram::Step*> map_draws(const MapProgram& program);

/// A map that is kernels of its own.
struct MapPlan {
  MapProgram program;
  MapSpace space;
  std::vector<DType> inputs, outputs;  ///< element types in memory
  std::vector<DType> types;            ///< of values
  bool small = true;                   ///< indices of elements, before a part is cut too, are below 2^31
  bool placed = false;                 ///< drawing by the position of the elements, which are a part of a tensor
  /// Dropout: whether blocks of eight elements, from multiples of eight on, are such blocks of the logical tensor.
  bool blocks_of_draws = false;

  /// Of pass `sums_last` alone: outputs that are summed over the last dimension; else all others.
  enum class Pass { kElements, kRows, kLast };
  /// The passes to launch, one after another.
  std::vector<Pass> passes() const;
  bool writes(Pass pass, size_t output) const;
  /// Elements that a thread of a pass has at once.
  int pack(Pass pass) const;
  /// Columns that a block of threads of the pass kRows has at once.
  int tile_columns() const;
  /// CUDA text with one kernel, "map", whose arguments are an `arguments` ("SmallMap") of device/map_arguments.h.
  std::string text(Pass pass, const std::string& arguments) const;
};

/// What the kernels of a node that the card takes are compiled from: its passes, then the ends of sums over rows.
std::vector<CudaSource> map_sources(const NodeSignature& node);

}  // namespace ramet::kernel::cuda
