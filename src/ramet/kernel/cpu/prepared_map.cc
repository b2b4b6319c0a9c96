#include "ramet/kernel/cpu/prepared_map.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/compiled_map.h"
#include "ramet/kernel/cpu/map_wide.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cpu {
namespace {

using Reduce = MapProgram::Reduce;

/// Integers that a register of 32 bits holds among others.
bool is_short(DType type) {
  return type == DType::kI8 || type == DType::kI16 || type == DType::kU8 || type == DType::kU16;
}

/// The loop of an op on registers of `type`. Short integers go through the loops of i32, and are wrapped; u32 through
/// those whose bits do not depend on a sign.
StepFunction loop_of(const MapOpInfo& info, DType type) {
  constexpr MapForm kF32 = MapForm::kF32;
  static constexpr std::string_view kSignless[] = {"add",         "subtract",   "multiply",    "negate",
                                                   "square",      "equal",      "not_equal",   "select",
                                                   "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"};
  if (type == DType::kU32 && std::find(std::begin(kSignless), std::end(kSignless), info.name) == std::end(kSignless))
    return nullptr;
  const bool as_i32 = is_short(type) || type == DType::kU32;
  const StepFunction found = map_steps().step(info.name, as_i32 ? DType::kI32 : type, kF32, kF32, kF32);
  return found || type != DType::kF32 ? found : find_wide_step(info.name);
}

/// The loop of a cast between register types; null where elements go one by one.
StepFunction cast_loop(DType from, DType to) {
  if (from == DType::kF32 && to != DType::kF32 && to != DType::kI32 && to != DType::kBool) return nullptr;
  if (size_of(from) == 8 || size_of(to) == 8 || (from == DType::kU32 && to == DType::kF32)) return nullptr;
  const auto lanes = [](DType type) { return is_short(type) || type == DType::kU32 ? DType::kI32 : type; };
  return map_steps().cast(lanes(from), lanes(to));
}

constexpr int64_t kLine = 64;
int64_t up_to_line(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

MapEvaluator::Prepared::Prepared(const MapProgram& program, const Shape& space, std::span<const TensorType> input_types,
                                 std::span<const TensorType> output_types, int thread_count,
                                 std::optional<Position> place)
    : threads(thread_count), position(std::move(place)) {
  if (position && (position->whole() || !program.draws())) position.reset();
  std::vector<DType> dtypes;
  for (const TensorType& type : input_types) dtypes.push_back(type.dtype);
  const std::vector<DType> types = map_value_types(program, dtypes, "map kernel");
  MapSpace walked(program, space, input_types);
  extents = walked.extents;
  elements = walked.elements, columns = walked.columns, rows = walked.rows;
  sums_rows = walked.sums_rows, sums_last = walked.sums_last;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const MapProgram::Output& output = program.outputs[i];
    const DType dtype = output_types[i].dtype;
    outputs.push_back(
        {output.value, output.reduce, dtype, static_cast<int64_t>(size_of(dtype)), map_steps().store(dtype), 0, 0});
    if (!outputs.back().store)
      throw Error({.what = "a map output of an element type that has no arithmetic", .found = output_types[i].text()});
  }
  add_inputs(std::move(walked), input_types);

  for (DType type : types) values.push_back({type, static_cast<int>(values.size()), 0, -1});
  for (size_t i = 0; i < program.steps.size(); ++i)
    add_step(program, program.steps[i], program.inputs + static_cast<int>(i));
  for (Output& output : outputs) output.value = values[static_cast<size_t>(output.value)].stands_for;
  merge_rounding();
  know_rounded();
  count_uses();
  compiled = CompiledMap::make(*this);
  assign_registers();
  lay_out_scratch();
}

MapEvaluator::Prepared::~Prepared() = default;

/// What the loops know of the inputs.
void MapEvaluator::Prepared::add_inputs(MapSpace space, std::span<const TensorType> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    Input input;
    static_cast<MapSpace::Input&>(input) = std::move(space.inputs[i]);
    input.dtype = types[i].dtype;
    input.size = static_cast<int64_t>(size_of(input.dtype));
    input.load = map_steps().load(input.dtype);
    if (!input.load)
      throw Error({.what = "a map input of an element type that has no arithmetic", .found = types[i].text()});
    if (!input.counter) {
      const bool rows_alike =
          std::all_of(input.strides.begin(), input.strides.end() - 1, [](int64_t stride) { return stride == 0; });
      input.repeats =
          !input.full && rows_alike && input.strides.back() == 1 && columns <= kShortRow && i < kMostRepeating;
    }
    inputs.push_back(std::move(input));
  }
}

void MapEvaluator::Prepared::add_step(const MapProgram& program, const MapProgram::Step& step, int value) {
  const MapOpInfo& info = step.info();
  Step made;
  made.value = value;
  made.info = &info;
  made.p = static_cast<float>(step.parameter);
  made.q = static_cast<float>(step.second);
  const bool dropout = info.types == MapOpTypes::kDropout;
  for (size_t i = 0; i < step.operands.size(); ++i)
    if (!(dropout && i == 1)) made.operands[i] = values[static_cast<size_t>(step.operands[i])].stands_for;
  Value& result = values[static_cast<size_t>(value)];
  // Select is named by what it selects, all others by their first operand.
  const DType type = values[static_cast<size_t>(step.operands[info.types == MapOpTypes::kSelect ? 1 : 0])].type;
  if ((info.types == MapOpTypes::kCast && type == result.type) || info.types == MapOpTypes::kAny) {
    result.stands_for = made.operands[0];
    return;
  }
  const MapSteps& loops = map_steps();
  constexpr MapForm kF32 = MapForm::kF32, kBf16 = MapForm::kBf16;
  if (info.types == MapOpTypes::kCast) {
    made.plain = cast_loop(type, result.type);
    made.wraps = is_short(result.type);
  } else {
    made.plain = loop_of(info, type);
    made.wraps = is_short(result.type) && info.types != MapOpTypes::kSelect;
    // Of inputs that are bf16 alone: some loops prepare tables for them.
    const auto may_be = [&](size_t operand, MapForm form) {
      const auto source = static_cast<size_t>(made.operands[operand]);  // none: beyond all inputs
      return form == kF32 || (source < inputs.size() && inputs[source].dtype == DType::kBF16);
    };
    for (MapForm a : {kF32, kBf16})
      for (MapForm b : {kF32, kBf16})
        for (MapForm r : {kF32, kBf16, MapForm::kRounded})
          if (type == DType::kF32 && may_be(0, a) && (b == kF32 || (info.arity == 2 && !dropout && may_be(1, b))))
            made.forms[static_cast<int>(a)][static_cast<int>(b)][static_cast<int>(r)] =
                loops.step(info.name, type, a, b, r);
  }
  if (!made.plain) {
    if (!info.integer && info.types != MapOpTypes::kCast)
      internal_error("map kernel", "no loop for " + std::string(info.name));
    made.generic = &info;
  }
  if (dropout) {
    made.dropout = static_cast<int>(dropouts.size());
    dropouts.push_back({step.parameter, step.seed, step.tensor, step.operands[1]});
  }
  (void)program;
  steps.push_back(made);
}

/// A rounding to bf16 of a value that nothing else wants is done by the loop that makes the value.
void MapEvaluator::Prepared::merge_rounding() {
  std::vector<int> uses(values.size(), 0);
  for (const Step& step : steps)
    for (int operand : step.operands)
      if (operand >= 0) ++uses[static_cast<size_t>(operand)];
  for (const Output& output : outputs) ++uses[static_cast<size_t>(output.value)];
  const StepFunction rounding =
      map_steps().step("round_bf16", DType::kF32, MapForm::kF32, MapForm::kF32, MapForm::kF32);
  std::vector<Step> kept;
  for (const Step& step : steps) {
    const auto source =
        std::find_if(kept.begin(), kept.end(), [&](const Step& s) { return s.value == step.operands[0]; });
    const bool merges = step.plain == rounding && source != kept.end() && source->form == MapForm::kF32 &&
                        uses[static_cast<size_t>(source->value)] == 1 && source->forms[0][0][2] != nullptr;
    if (!merges) {
      kept.push_back(step);
      continue;
    }
    source->form = MapForm::kRounded;
    source->value = step.value;
  }
  steps = std::move(kept);
}

/// Steps and outputs of values that are bf16 numbers, if in registers of f32, have loops that make use of it.
void MapEvaluator::Prepared::know_rounded() {
  constexpr MapForm kF32 = MapForm::kF32, kBf16 = MapForm::kBf16, kRounded = MapForm::kRounded;
  const MapSteps& loops = map_steps();
  const StepFunction rounding = loops.step("round_bf16", DType::kF32, kF32, kF32, kF32);
  std::vector<bool> rounded(values.size(), false);
  for (Step& step : steps) {
    rounded[static_cast<size_t>(step.value)] = step.form == kRounded || step.plain == rounding;
    const auto source = static_cast<size_t>(step.operands[0]);
    if (step.generic || values[source].type != DType::kF32) continue;
    if (!rounded[source] && !(source < inputs.size() && inputs[source].dtype == DType::kBF16)) continue;
    for (MapForm b : {kF32, kBf16})
      for (MapForm r : {kF32, kBf16, kRounded})
        if (const StepFunction loop = loops.step(step.info->name, DType::kF32, kRounded, b, r);
            loop && step.forms[0][static_cast<int>(b)][static_cast<int>(r)])
          step.forms[0][static_cast<int>(b)][static_cast<int>(r)] = loop;
    if (const StepFunction loop = loops.step(step.info->name, DType::kF32, kRounded, kF32, kF32)) step.plain = loop;
  }
  for (Output& output : outputs)
    if (output.dtype == DType::kBF16 && output.reduce == Reduce::kNone && rounded[static_cast<size_t>(output.value)])
      output.store = loops.store_rounded;
}

void MapEvaluator::Prepared::count_uses() {
  for (const Step& step : steps)
    for (int operand : step.operands)
      if (operand >= 0) ++values[static_cast<size_t>(operand)].uses;
  for (const Output& output : outputs) ++values[static_cast<size_t>(output.value)].uses;
  for (Step& step : steps) {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].value == step.value && outputs[i].reduce == Reduce::kNone) {
        // The first output of the value; further ones copy it.
        step.output = static_cast<int>(i);
        break;
      }
  }
}

/// Linear scan: a register is free again after the last step that reads it, and may then take that step's result.
void MapEvaluator::Prepared::assign_registers() {
  std::vector<int> last_use(values.size(), -1);
  const int end = static_cast<int>(steps.size());
  for (int at = 0; at < end; ++at)
    for (int operand : steps[static_cast<size_t>(at)].operands)
      if (operand >= 0) last_use[static_cast<size_t>(operand)] = at;
  for (const Output& output : outputs) last_use[static_cast<size_t>(output.value)] = end;

  bool wide = false;
  for (const Value& value : values) wide |= size_of(value.type) == 8 && value.uses > 0;
  std::vector<int> free;
  const auto take = [&](int value) {
    int& reg = values[static_cast<size_t>(value)].reg;
    if (reg >= 0) return;
    if (free.empty())
      reg = registers++;
    else
      reg = free.back(), free.pop_back();
  };
  const auto release = [&](int at) {
    for (size_t v = 0; v < values.size(); ++v) {
      // Compiled loops want all inputs at once.
      const bool kept = v < inputs.size() && (compiled || inputs[v].uniform || inputs[v].repeats);
      if (last_use[v] == at && values[v].reg >= 0 && !kept) free.push_back(values[v].reg);
    }
  };
  for (size_t v = 0; v < inputs.size(); ++v)
    if ((inputs[v].uniform || inputs[v].repeats) && values[v].uses > 0) take(static_cast<int>(v));
  // An output in place of an input makes outputs that copy inputs be loaded before the first step.
  for (const Output& output : outputs)
    if (static_cast<size_t>(output.value) < inputs.size()) take(output.value);
  for (int at = 0; at < end; ++at) {
    const Step& step = steps[static_cast<size_t>(at)];
    for (int operand : step.operands)
      if (operand >= 0) take(operand);
    if (!wide) release(at);
    take(step.value);
    if (wide) release(at);
  }
  for (const Output& output : outputs) take(output.value);

  block = registers <= 4 ? 1024 : 512;
  if (columns > block) {
    const int64_t parts = (columns + block - 1) / block;
    block = ((columns + parts - 1) / parts + kMapPad - 1) / kMapPad * kMapPad;
  }
  block_rows = std::max<int64_t>(1, block / std::max<int64_t>(1, columns));
  const int64_t whole = kMapPad / std::gcd(kMapPad, columns);  // rows that are whole vectors together
  if (block_rows > whole) block_rows -= block_rows % whole;
  register_bytes = up_to_line((block + kMapPad) * (wide ? 8 : 4));
}

void MapEvaluator::Prepared::lay_out_scratch() {
  int64_t lanes = 0, partials = 0;
  const int64_t row_blocks = (rows + kReduceRows - 1) / kReduceRows;
  for (Output& output : outputs) {
    output.lanes_at = lanes;
    output.partials_at = partials;
    if (output.reduce == Reduce::kSumLast) lanes += kReduceLanes;
    if (output.reduce == Reduce::kSumRows) partials += row_blocks * columns;
  }
  places_at = registers * register_bytes;
  lanes_at = places_at + up_to_line(static_cast<int64_t>(values.size() * sizeof(void*)));
  thread_bytes = lanes_at + up_to_line(lanes * 4);
  draws_at = threads * thread_bytes;
  partials_at = draws_at + up_to_line(static_cast<int64_t>(dropouts.size() * sizeof(DropoutDraw)));
  bytes = partials_at + partials * 4;
}

}  // namespace ramet::kernel::cpu
