#pragma once

#include <cstdint>
#include <string_view>

#include "ramet/base/dtype.h"
#include "ramet/ops/random_bits.h"

namespace ramet::ops {
class Position;
}  // namespace ramet::ops

namespace ramet::kernel::cpu {

// The loops that the map evaluator strings together. A register is a stretch of memory in L1: one f32, i32 (shorter
// integers and bools too, these as 0 or 1), u32, i64 or u64 an element. Registers are padded to a multiple of kMapPad
// elements, and loops run over whole vectors, so that body and tail are one code; only loads and stores mind the exact
// count.

inline constexpr int64_t kMapPad = 16;

/// How a floating operand or result of a step lies in memory.
enum class MapForm : uint8_t {
  kF32,
  kBf16,    ///< in memory as bf16; operands and results
  kRounded  ///< f32 holding the bf16 rounding; results, and first operands of loops that look up their values
};

struct StepCall {
  const void* operands[3] = {};
  void* result = nullptr;
  int64_t count = 0;    ///< elements; loops round it up to kMapPad
  int64_t element = 0;  ///< index of the first one in the iteration space
  float p = 0, q = 0;
  const DropoutDraw* dropout = nullptr;  ///< of the whole logical space
  const Position* position = nullptr;    ///< of the iteration space in the logical one; null: it is that
};
using StepFunction = void (*)(const StepCall&);

/// Widens `count` elements at `from` (distance `stride` elements: 1, 0 or any) to a register.
using LoadFunction = void (*)(const void* from, int64_t stride, int64_t count, void* to);
/// Narrows `count` elements of a register to memory.
using StoreFunction = void (*)(const void* from, int64_t count, void* to);
/// Adds `count` f32 to `sums`, element by element.
using AddFunction = void (*)(const float* from, int64_t count, float* sums);
/// Adds `rows` rows of `columns` f32, one after another, to `sums`, column by column in order; `first`: the first row's
/// values are where the sums begin.
using AddRowsFunction = void (*)(const float* from, int64_t rows, int64_t columns, bool first, float* sums);
/// Adds `count` f32 to 16 lanes in the canonical order of the last dimension; `count` is a multiple of 16 but at the
/// end.
using LaneFunction = void (*)(const float* from, int64_t count, float* lanes);

/// All loops, for the instruction set at hand.
struct MapSteps {
  /// The loop of map op `name` whose operands have register type `type` (f32, i32, bool) and the given forms; null when
  /// there is none. Plain forms exist for every op that the type has.
  StepFunction (*step)(std::string_view name, DType type, MapForm a, MapForm b, MapForm result);
  /// The loop of a cast between f32, i32 and bool.
  StepFunction (*cast)(DType from, DType to);
  /// Between memory and registers; null of f64.
  LoadFunction (*load)(DType dtype);
  StoreFunction (*store)(DType dtype);
  /// Of a register of bf16 roundings to bf16.
  StoreFunction store_rounded;
  AddFunction add;
  AddRowsFunction add_rows;
  LaneFunction add_lanes;
};
const MapSteps& map_steps();

}  // namespace ramet::kernel::cpu
