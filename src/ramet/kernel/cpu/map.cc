#include "ramet/kernel/cpu/map.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/compiled_map.h"
#include "ramet/kernel/cpu/prepared_map.h"
#include "ramet/kernel/cpu/reduce.h"
#include "ramet/ops/random_bits.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cpu {
namespace {

using Reduce = MapProgram::Reduce;

/// A part of a block that lies in one row.
struct Segment {
  int64_t row, column, count;
};

/// An integer in a register, a u64 by its bits.
int64_t integer_of(const void* reg, DType type, int64_t index) {
  if (size_of(type) == 8) return static_cast<const int64_t*>(reg)[index];
  if (type == DType::kU32) return static_cast<const uint32_t*>(reg)[index];
  return static_cast<const int32_t*>(reg)[index];
}
void set_integer(void* reg, DType type, int64_t index, int64_t value) {
  if (size_of(type) == 8)
    static_cast<int64_t*>(reg)[index] = value;
  else
    static_cast<int32_t*>(reg)[index] = static_cast<int32_t>(wrap_integer(value, type));
}

/// Towards zero, held in the range of the type.
int64_t saturated(float value, DType type) {
  if (value != value) return 0;
  const double wide = value, low = lowest_of(type), high = greatest_of(type);
  if (wide <= low) return type == DType::kI64 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(low);
  if (wide < high)
    return type == DType::kU64 ? static_cast<int64_t>(static_cast<uint64_t>(wide)) : static_cast<int64_t>(wide);
  if (type == DType::kI64) return std::numeric_limits<int64_t>::max();
  return type == DType::kU64 ? -1 : static_cast<int64_t>(high);
}

/// Casts that have no loop of their own.
void cast_each(const void* from, DType source, void* to, DType target, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (source == DType::kF32)
      set_integer(to, target, i, saturated(static_cast<const float*>(from)[i], target));
    else if (target == DType::kF32 && source == DType::kU64)
      static_cast<float*>(to)[i] = static_cast<float>(static_cast<const uint64_t*>(from)[i]);
    else if (target == DType::kF32)
      static_cast<float*>(to)[i] = static_cast<float>(integer_of(from, source, i));
    else
      set_integer(to, target, i, integer_of(from, source, i));
  }
}

template <typename T>
void wrap_each(void* reg, int64_t count) {
  auto* values = static_cast<int32_t*>(reg);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i]);
}
/// Numbers of 32 bits as those of a shorter type.
void wrap_register(void* reg, DType type, int64_t count) {
  switch (type) {
    case DType::kI8: return wrap_each<int8_t>(reg, count);
    case DType::kI16: return wrap_each<int16_t>(reg, count);
    case DType::kU8: return wrap_each<uint8_t>(reg, count);
    case DType::kU16: return wrap_each<uint16_t>(reg, count);
    default: return;
  }
}

}  // namespace

/// One thread's walk over its part of the space.
class MapWalk {
 public:
  using Prepared = MapEvaluator::Prepared;
  MapWalk(const Prepared& prepared, std::span<const void* const> inputs, std::span<void* const> outputs, char* scratch,
          int rank)
      : prepared_(prepared),
        inputs_(inputs),
        outputs_(outputs),
        registers_(scratch + rank * prepared.thread_bytes),
        places_(reinterpret_cast<const void**>(registers_ + prepared.places_at)),
        lanes_(reinterpret_cast<float*>(registers_ + prepared.lanes_at)),
        partials_(reinterpret_cast<float*>(scratch + prepared.partials_at)),
        draws_(reinterpret_cast<const DropoutDraw*>(scratch + prepared.draws_at)) {
    for (void* output : outputs_)
      for (const void* input : inputs_) aliased_ |= input == output;
    for (size_t i = 0; i < prepared_.inputs.size(); ++i)
      if (prepared_.inputs[i].uniform && prepared_.values[i].reg >= 0 && prepared_.elements > 0)
        prepared_.inputs[i].load(inputs_[i], 0, prepared_.block, reg(static_cast<int>(i)));
  }

  /// Elements [begin, end) of the space, in order.
  void walk(int64_t begin, int64_t end) {
    const int64_t columns = prepared_.columns;
    for (int64_t at = begin; at < end;) {
      const int64_t row = at / columns, column = at % columns;
      const bool in_place = prepared_.compiled && prepared_.compiled->in_place() && column == 0 && end - at >= columns;
      int64_t stop;
      if (in_place) {
        const int64_t most = prepared_.sums_rows ? kReduceRows - row % kReduceRows : kInPlace / columns;
        stop = at + std::min(most, (end - at) / columns) * columns;
      } else if (columns > prepared_.block) {
        stop = std::min((row + 1) * columns, at + prepared_.block - column % prepared_.block);
      } else {
        int64_t next = row + prepared_.block_rows;
        if (prepared_.sums_rows) next = std::min(next, (row / kReduceRows + 1) * kReduceRows);
        stop = next * columns;
      }
      stop = std::min(stop, end);
      block(at, stop - at, in_place);
      at = stop;
    }
  }

 private:
  static constexpr int64_t kInPlace = 8192;  ///< elements of a block that needs no registers: all of it stays in L2

  void* reg(int value) {
    return registers_ + prepared_.values[static_cast<size_t>(value)].reg * prepared_.register_bytes;
  }

  template <typename Visit>
  void for_each_segment(int64_t at, int64_t count, const Visit& visit) const {
    const int64_t columns = prepared_.columns;
    int64_t row = at / columns, column = at % columns;
    for (int64_t done = 0; done < count; ++row, column = 0) {
      const int64_t length = std::min(columns - column, count - done);
      visit(Segment{row, column, length}, done);
      done += length;
    }
  }

  /// Element of the input that the space's element (row, column) reads.
  static int64_t offset(const Prepared& prepared, const Prepared::Input& input, int64_t row, int64_t column) {
    int64_t result = column * input.strides.back();
    for (size_t axis = prepared.extents.size() - 1; axis-- > 0;) {
      result += row % prepared.extents[axis] * input.strides[axis];
      row /= prepared.extents[axis];
    }
    return result;
  }

  /// Where the block of the input lies one after another in memory; null when it does not.
  const char* in_memory(int value) const {
    const auto index = static_cast<size_t>(value);
    const Prepared::Input& input = prepared_.inputs[index];
    const auto* base = static_cast<const char*>(inputs_[index]);
    if (input.full) return base + at_ * input.size;
    const int64_t row = at_ / prepared_.columns, column = at_ % prepared_.columns;
    if (input.strides.back() != 1 || column + count_ > prepared_.columns) return nullptr;
    return base + offset(prepared_, input, row, column) * input.size;
  }

  void load(int value) {
    const auto index = static_cast<size_t>(value);
    const Prepared::Input& input = prepared_.inputs[index];
    const auto* base = static_cast<const char*>(inputs_[index]);
    char* target = static_cast<char*>(reg(value));
    places_[index] = target;
    if (input.uniform) return;
    if (input.full) return input.load(base + at_ * input.size, 1, count_, target);
    const bool begins_row = at_ % prepared_.columns == 0;
    if (input.repeats) {
      if (begins_row && held_[index] >= count_) return;
      held_[index] = begins_row ? count_ : 0;
    }
    const int64_t width = size_of(prepared_.values[index].type) == 8 ? 8 : 4;
    RowOffset from(prepared_, input, at_ / prepared_.columns);
    for_each_segment(at_, count_, [&](const Segment& segment, int64_t done) {
      const int64_t first = from.at(segment.row) + segment.column * input.strides.back();
      input.load(base + first * input.size, input.strides.back(), segment.count, target + done * width);
    });
  }

  /// Where rows of an input begin, one row after another without divisions.
  class RowOffset {
   public:
    RowOffset(const Prepared& prepared, const Prepared::Input& input, int64_t row)
        : prepared_(prepared), input_(input), row_(row) {
      for (size_t axis = prepared.extents.size() - 1; axis-- > 0;) {
        index_[axis] = row % prepared.extents[axis];
        offset_ += index_[axis] * input.strides[axis];
        row /= prepared.extents[axis];
      }
    }
    /// `row`: that of the last call, or the next.
    int64_t at(int64_t row) {
      for (; row_ < row; ++row_)
        for (size_t axis = prepared_.extents.size() - 1; axis-- > 0;) {
          offset_ += input_.strides[axis];
          if (++index_[axis] < prepared_.extents[axis]) break;
          offset_ -= prepared_.extents[axis] * input_.strides[axis];
          index_[axis] = 0;
        }
      return offset_;
    }

   private:
    const Prepared& prepared_;
    const Prepared::Input& input_;
    int64_t row_, offset_ = 0;
    int64_t index_[16];  // tensors have no more dimensions
  };

  /// The value as a loop can read it: a register, or memory that needs no widening and is as long as whole vectors.
  const void* place(int value, bool may_stay_in_memory = true) {
    const auto index = static_cast<size_t>(value);
    if (places_[index]) return places_[index];
    const Prepared::Input& input = prepared_.inputs[index];
    if (whole_ && may_stay_in_memory && !input.uniform && is_register(input.dtype)) places_[index] = in_memory(value);
    if (!places_[index]) load(value);
    return places_[index];
  }

  /// bf16 memory that the step's loop widens itself; null where it had better come from a register.
  const void* narrow_place(const Prepared::Step& step, size_t operand) const {
    const int value = step.operands[operand];
    if (!whole_ || value < 0 || static_cast<size_t>(value) >= prepared_.inputs.size()) return nullptr;
    const Prepared::Input& input = prepared_.inputs[static_cast<size_t>(value)];
    if (input.dtype != DType::kBF16 || places_[static_cast<size_t>(value)] || input.uniform) return nullptr;
    const StepFunction function = operand == 0 ? step.forms[1][0][0] : operand == 1 ? step.forms[0][1][0] : nullptr;
    return function ? in_memory(value) : nullptr;
  }

  /// Whether the step may write output memory at once, while later steps and copies still read the inputs.
  bool may_write(size_t step, int output) const {
    if (!whole_ || output < 0 || output >= kMarks) return false;
    if (!aliased_ || step + 1 == prepared_.steps.size()) return true;
    const void* memory = outputs_[static_cast<size_t>(output)];
    return std::none_of(inputs_.begin(), inputs_.end(), [&](const void* input) { return input == memory; });
  }

  /// `in_place`: whole rows, of which the compiled loop reads and writes memory alone.
  void block(int64_t at, int64_t count, bool in_place) {
    at_ = at;
    count_ = count;
    whole_ = in_place || count % kMapPad == 0;
    std::fill_n(places_, prepared_.values.size(), nullptr);
    written_ = 0;
    if (aliased_ && !in_place)  // before a step writes over what an output copies
      for (const Prepared::Output& output : prepared_.outputs)
        if (static_cast<size_t>(output.value) < prepared_.inputs.size()) place(output.value, false);
    const bool by_rows = prepared_.compiled && prepared_.compiled->by_rows();
    if (prepared_.compiled && (by_rows ? in_place || prepared_.sums_rows : whole_))
      run_compiled();
    else
      for (size_t i = 0; i < prepared_.steps.size(); ++i) step(i);
    for (size_t i = 0; i < prepared_.outputs.size(); ++i) finish(i);
  }

  /// All steps of the block at once. A vector of all inputs is read before one of any output is written, so outputs in
  /// place of inputs need no care.
  void run_compiled() {
    const CompiledMap& compiled = *prepared_.compiled;
    const void* places[CompiledMap::kMostPlaces];
    const size_t inputs = prepared_.inputs.size();
    for (size_t i = 0; i < inputs; ++i)
      if (prepared_.values[i].uses > 0 && prepared_.values[i].reg >= 0) places[i] = read_place(i);
    for (size_t i = 0; i < prepared_.outputs.size(); ++i) {
      const Prepared::Output& output = prepared_.outputs[i];
      const auto value = static_cast<size_t>(output.value);
      const bool sums = compiled.by_rows() && output.reduce == Reduce::kSumRows;
      if (sums) {
        places[inputs + i] = begun_sums(output);
      } else if (value < inputs) {
        continue;
      } else if (compiled.writes(i)) {
        places[inputs + i] = static_cast<char*>(outputs_[i]) + at_ * output.size;
      } else {
        places[inputs + i] = places_[value] = reg(output.value);
      }
      if (sums || compiled.writes(i)) written_ |= uint64_t{1} << i;
    }
    compiled.run(places, compiled.by_rows() ? count_ / prepared_.columns : count_);
  }

  /// Where the compiled loop reads the block of an input.
  const void* read_place(size_t input) {
    const Prepared::Input& from = prepared_.inputs[input];
    switch (prepared_.compiled->reads(input)) {
      case CompiledMap::Reads::kPlace: return place(static_cast<int>(input));
      case CompiledMap::Reads::kBf16: return in_memory(static_cast<int>(input));
      case CompiledMap::Reads::kColumn:
      case CompiledMap::Reads::kNumber: return inputs_[input];
      case CompiledMap::Reads::kRow:
        return static_cast<const char*>(inputs_[input]) + at_ / prepared_.columns * from.size;
    }
    return nullptr;
  }

  /// The sums that the rows of the block are added to. Those of no row are -0, to which any number is added as it is.
  float* begun_sums(const Prepared::Output& output) {
    const int64_t row = at_ / prepared_.columns;
    float* sums = partials_ + output.partials_at + row / kReduceRows * prepared_.columns;
    if (row % kReduceRows == 0) std::fill_n(sums, prepared_.columns, -0.0f);
    return sums;
  }

  void step(size_t index) {
    const Prepared::Step& step = prepared_.steps[index];
    const Prepared::Value& made = prepared_.values[static_cast<size_t>(step.value)];
    StepCall call{.count = count_, .element = at_, .p = step.p, .q = step.q};
    MapForm forms[2] = {MapForm::kF32, MapForm::kF32};
    for (size_t i = 0; i < 3; ++i) {
      if (step.operands[i] < 0) continue;
      if (const void* narrow = narrow_place(step, i)) {
        call.operands[i] = narrow;
        forms[i] = MapForm::kBf16;
      } else {
        call.operands[i] = place(step.operands[i]);
      }
    }
    if (step.dropout >= 0) {
      call.dropout = draws_ + step.dropout;
      if (prepared_.position) call.position = &*prepared_.position;
    }

    MapForm form = step.form;
    call.result = reg(step.value);
    if (may_write(index, step.output)) {
      const Prepared::Output& output = prepared_.outputs[static_cast<size_t>(step.output)];
      char* memory = static_cast<char*>(outputs_[static_cast<size_t>(step.output)]) + at_ * output.size;
      const bool narrow = output.dtype == DType::kBF16 && made.uses == 1 && step.forms[0][0][1];
      if (is_register(output.dtype)) call.result = memory;
      if (narrow) call.result = memory, form = MapForm::kBf16;
      if (call.result == memory) written_ |= uint64_t{1} << step.output;
    }
    places_[step.value] = call.result;
    if (step.generic) return run_generic(step, call);
    const bool plain = form == MapForm::kF32 && forms[0] == MapForm::kF32 && forms[1] == MapForm::kF32;
    const StepFunction function =
        plain ? step.plain : step.forms[static_cast<int>(forms[0])][static_cast<int>(forms[1])][static_cast<int>(form)];
    function(call);
    if (step.wraps) wrap_register(call.result, made.type, count_);
  }

  /// Whether memory holds elements as registers of four bytes do.
  static bool is_register(DType dtype) { return dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kU32; }

  void run_generic(const Prepared::Step& step, const StepCall& call) {
    DType types[3] = {};
    for (size_t i = 0; i < 3; ++i)
      if (step.operands[i] >= 0) types[i] = prepared_.values[static_cast<size_t>(step.operands[i])].type;
    const DType result = prepared_.values[static_cast<size_t>(step.value)].type;
    if (step.generic->types == MapOpTypes::kCast) {
      cast_each(call.operands[0], types[0], call.result, result, count_);
    } else {
      const auto value = [&](size_t operand, int64_t i) {
        return call.operands[operand] ? integer_of(call.operands[operand], types[operand], i) : 0;
      };
      const DType type = types[step.generic->types == MapOpTypes::kSelect ? 1 : 0];
      for (int64_t i = 0; i < count_; ++i)
        set_integer(call.result, result, i,
                    integer_meaning(*step.generic, type, value(0, i), value(1, i), value(2, i)));
    }
  }

  /// An output that is an input, widened, needs no register between; whether it was one.
  bool widen_at_once(const Prepared::Output& output, void* memory) const {
    const auto index = static_cast<size_t>(output.value);
    if (index >= prepared_.inputs.size() || places_[index] || output.reduce != Reduce::kNone) return false;
    const Prepared::Input& input = prepared_.inputs[index];
    if (!input.full || !is_register(output.dtype) || output.dtype != prepared_.values[index].type) return false;
    input.load(static_cast<const char*>(inputs_[index]) + at_ * input.size, 1, count_,
               static_cast<char*>(memory) + at_ * output.size);
    return true;
  }

  /// Copies or sums the block of an output's value.
  void finish(size_t index) {
    const Prepared::Output& output = prepared_.outputs[index];
    if (index < kMarks && written_ >> index & 1) return;
    if (widen_at_once(output, outputs_[index])) return;
    const void* value = place(output.value);
    if (output.reduce == Reduce::kNone) {
      char* memory = static_cast<char*>(outputs_[index]) + at_ * output.size;
      if (value != memory) output.store(value, count_, memory);
      return;
    }
    const auto* floats = static_cast<const float*>(value);
    if (output.reduce == Reduce::kSumRows && count_ % prepared_.columns == 0) return add_rows(output, floats);
    for_each_segment(at_, count_, [&](const Segment& segment, int64_t done) {
      if (output.reduce == Reduce::kSumRows)
        add_row(output, segment, floats + done);
      else
        add_lanes(output, outputs_[index], segment, floats + done);
    });
  }

  void add_row(const Prepared::Output& output, const Segment& segment, const float* values) {
    float* sums = partials_ + output.partials_at + segment.row / kReduceRows * prepared_.columns + segment.column;
    if (segment.row % kReduceRows == 0)
      std::memcpy(sums, values, static_cast<size_t>(segment.count) * sizeof(float));
    else
      map_steps().add(values, segment.count, sums);
  }

  /// The block, which is whole rows of one of the blocks of rows that sums are made of.
  void add_rows(const Prepared::Output& output, const float* values) {
    const int64_t columns = prepared_.columns, row = at_ / columns;
    float* sums = partials_ + output.partials_at + row / kReduceRows * columns;
    map_steps().add_rows(values, count_ / columns, columns, row % kReduceRows == 0, sums);
  }

  void add_lanes(const Prepared::Output& output, void* memory, const Segment& segment, const float* values) {
    float* lanes = lanes_ + output.lanes_at;
    if (segment.column == 0) std::fill_n(lanes, kReduceLanes, 0.0f);
    map_steps().add_lanes(values, segment.count, lanes);
    if (segment.column + segment.count < prepared_.columns) return;
    for (int64_t width = kReduceLanes / 2; width > 0; width /= 2)
      for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    output.store(lanes, 1, static_cast<char*>(memory) + segment.row * output.size);
  }

  const Prepared& prepared_;
  std::span<const void* const> inputs_;
  std::span<void* const> outputs_;
  char* registers_;
  const void** places_;
  float* lanes_;
  float* partials_;
  const DropoutDraw* draws_;
  bool aliased_ = false;
  int64_t held_[Prepared::kMostRepeating] = {};  ///< elements in the registers of inputs that repeat

  static constexpr int kMarks = 64;
  int64_t at_ = 0, count_ = 0;
  bool whole_ = false;    ///< the block is whole vectors long
  uint64_t written_ = 0;  ///< of the first 64 outputs, those whose block a step wrote itself
};

MapEvaluator::MapEvaluator(const MapProgram& program, const Shape& space, std::span<const TensorType> inputs,
                           std::span<const TensorType> outputs, int threads, std::optional<Position> position)
    : prepared_(std::make_unique<Prepared>(program, space, inputs, outputs, threads, std::move(position))) {}
MapEvaluator::~MapEvaluator() = default;

int64_t MapEvaluator::scratch_bytes() const { return prepared_->bytes; }

namespace {

/// Least elements that are worth a thread's waking.
constexpr int64_t kGrain = 4096;

}  // namespace

void MapEvaluator::run(std::span<const void* const> inputs, std::span<void* const> outputs, void* scratch,
                       ThreadTeam& team) const {
  const Prepared& prepared = *prepared_;
  auto* memory = static_cast<char*>(scratch);
  auto* draws = reinterpret_cast<DropoutDraw*>(memory + prepared.draws_at);
  for (size_t i = 0; i < prepared.dropouts.size(); ++i) {
    const Prepared::Dropout& dropout = prepared.dropouts[i];
    const auto* counter = static_cast<const int64_t*>(inputs[static_cast<size_t>(dropout.counter)]);
    new (draws + i) DropoutDraw(dropout.rate, static_cast<int64_t>(dropout.seed), static_cast<int64_t>(dropout.tensor),
                                counter, prepared.position ? prepared.position->logical_elements() : prepared.elements);
  }
  int64_t unit = 1;
  if (prepared.sums_rows)
    unit = kReduceRows * prepared.columns;
  else if (prepared.sums_last || (prepared.compiled && prepared.compiled->by_rows()))
    unit = prepared.columns;
  if (prepared.elements > 0) {
    const int64_t units = (prepared.elements + unit - 1) / unit;
    const int64_t grain = unit == 1 ? kGrain : std::max<int64_t>(1, kGrain / unit);
    team.split(units, grain, [&](int64_t begin, int64_t end, int rank) {
      MapWalk(prepared, inputs, outputs, memory, rank).walk(begin * unit, std::min(end * unit, prepared.elements));
    });
  }
  const int64_t blocks = (prepared.rows + kReduceRows - 1) / kReduceRows;
  for (size_t i = 0; i < prepared.outputs.size(); ++i) {
    const Prepared::Output& output = prepared.outputs[i];
    const bool by_rows = output.reduce == Reduce::kSumRows;
    if (by_rows && blocks > 0 && prepared.elements > 0) {
      auto* sums = reinterpret_cast<float*>(memory + prepared.partials_at) + output.partials_at;
      combine_row_sums(sums, blocks, prepared.columns, output.store, output.size, outputs[i], team);
    } else if (output.reduce != Reduce::kNone && prepared.elements == 0) {
      std::memset(outputs[i], 0, static_cast<size_t>((by_rows ? prepared.columns : prepared.rows) * output.size));
    }
  }
}

void MapEvaluator::run_part(std::span<const void* const> inputs, std::span<void* const> outputs, void* scratch,
                            int rank, int64_t begin, int64_t end) const {
  MapWalk(*prepared_, inputs, outputs, static_cast<char*>(scratch), rank).walk(begin, end);
}

}  // namespace ramet::kernel::cpu
