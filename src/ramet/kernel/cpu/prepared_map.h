#pragma once

#include <array>
#include <vector>

#include "ramet/kernel/cpu/map.h"
#include "ramet/ops/map_space.h"

namespace ramet::kernel::cpu {

class CompiledMap;

/// What MapEvaluator decides before it runs.
struct MapEvaluator::Prepared {
  struct Input : MapSpace::Input {
    DType dtype = DType::kF32;
    int64_t size = 4;  ///< bytes of an element
    LoadFunction load = nullptr;
    /// A short row, the same for all rows of the space: it keeps its register, and blocks that begin with a row find it
    /// there.
    bool repeats = false;
  };
  struct Value {
    DType type = DType::kF32;  ///< of the register
    int stands_for = -1;       ///< the value itself, or the one whose bits it has (identity steps)
    int uses = 0;              ///< by steps that run, and by outputs
    int reg = -1;              ///< register, or -1: it never needs one
  };
  struct Step {
    int value = 0;  ///< that it makes
    std::array<int, 3> operands{-1, -1, -1};
    StepFunction plain = nullptr;  ///< null: `generic`
    /// By forms of the first two operands and of the result; null where only the plain form exists.
    StepFunction forms[2][2][3] = {};
    MapForm form = MapForm::kF32;  ///< of the result: f32, or rounded to bf16 on the way
    float p = 0, q = 0;
    int dropout = -1;  ///< index among the dropout steps
    const MapOpInfo* info = nullptr;
    const MapOpInfo* generic = nullptr;  ///< an integer op or a cast, element by element
    bool wraps = false;                  ///< the loop's result may be beyond a type shorter than its register
    int output = -1;                     ///< the only output that takes the value and may be written by the loop itself
  };
  struct Dropout {
    double rate = 0;
    uint64_t seed = 0, tensor = 0;
    int counter = 0;  ///< input
  };
  struct Output {
    int value = 0;
    MapProgram::Reduce reduce = MapProgram::Reduce::kNone;
    DType dtype = DType::kF32;
    int64_t size = 4;
    StoreFunction store = nullptr;
    int64_t lanes_at = 0, partials_at = 0;  ///< where its sums lie: in a thread's floats, in the shared ones
  };

  std::vector<int64_t> extents;  ///< as MapSpace has them
  int64_t elements = 0, columns = 1, rows = 0;
  int64_t block = 1024;                         ///< most elements in a block
  int64_t block_rows = 1;                       ///< rows in a block of more than one; whole vectors, if it can be
  static constexpr int64_t kShortRow = 512;     ///< no longer than any block
  static constexpr size_t kMostRepeating = 16;  ///< inputs that may keep their registers
  std::vector<Input> inputs;
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<Dropout> dropouts;
  std::vector<Output> outputs;
  std::unique_ptr<const CompiledMap> compiled;  ///< of whole vectors; null: the steps' own loops run
  bool sums_rows = false, sums_last = false;
  int registers = 0;
  int64_t register_bytes = 0;
  int threads = 1;
  std::optional<Position> position;  ///< of a space that is a part of a logical one, for draws
  /// Layout of the scratch: for each thread registers, places of values, lane sums; then draws; then sums of row
  /// blocks.
  int64_t thread_bytes = 0, places_at = 0, lanes_at = 0, draws_at = 0, partials_at = 0, bytes = 0;

  Prepared(const MapProgram& program, const Shape& space, std::span<const TensorType> input_types,
           std::span<const TensorType> output_types, int thread_count, std::optional<Position> place);
  ~Prepared();

 private:
  void add_inputs(MapSpace space, std::span<const TensorType> types);
  void add_step(const MapProgram& program, const MapProgram::Step& step, int value);
  void merge_rounding();
  void know_rounded();
  void count_uses();
  void assign_registers();
  void lay_out_scratch();
};

}  // namespace ramet::kernel::cpu
