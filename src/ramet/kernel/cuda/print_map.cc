#include "ramet/kernel/cuda/print_map.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ramet/base/error.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cuda {
namespace {

using Reduce = MapProgram::Reduce;

bool is_short(DType type) {
  return type == DType::kI8 || type == DType::kI16 || type == DType::kU8 || type == DType::kU16;
}

/// The C++ type of values of a program.
std::string register_of(DType type) {
  switch (type) {
    case DType::kF32: return "float";
    case DType::kI64: return "long long";
    case DType::kU64: return "unsigned long long";
    case DType::kU32: return "unsigned";
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU16:
    case DType::kU8:
    case DType::kBool: return "int";
    default: internal_error("print_map", std::string(name_of(type)) + " has no register");
  }
}

/// The C++ type of integers shorter than a register.
std::string short_type(DType type) {
  switch (type) {
    case DType::kI8: return "signed char";
    case DType::kI16: return "short";
    case DType::kU8: return "unsigned char";
    default: return "unsigned short";
  }
}

std::string cast_of(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  if (to == DType::kBool) return from == DType::kF32 ? fmt::format("float_to_bool({})", value) : value + " != 0";
  if (from == DType::kF32) {
    if (size_of(to) == 8 || to == DType::kU32) return fmt::format("float_to_{}({})", name_of(to), value);
    if (to == DType::kI32) return fmt::format("float_to_i32({}, static_cast<int>(0x80000000u), 0x7fffffff)", value);
    return fmt::format("float_to_i32({}, {}, {})", value, static_cast<int>(lowest_of(to)),
                       static_cast<int>(greatest_of(to)));
  }
  const std::string cast = fmt::format("static_cast<{}>({})", register_of(to), value);
  return is_short(to) ? fmt::format("wrapped<{}>({})", short_type(to), cast) : cast;
}

/// The expression of a step; `immediate` and `draw` count those of the steps before it, and go on.
std::string step_of(const MapProgram::Step& step, std::span<const DType> types, DType result, const MapNames& names,
                    int* immediate, int* draw) {
  const MapOpInfo& info = step.info();
  const auto value = [&](size_t operand) { return fmt::format("v{}", step.operands[operand]); };
  const auto type = [&](size_t operand) { return types[static_cast<size_t>(step.operands[operand])]; };
  if (info.types == MapOpTypes::kAny) return value(0);
  if (info.types == MapOpTypes::kCast) return cast_of(value(0), type(0), result);
  if (info.types == MapOpTypes::kDropout) return fmt::format("{} * {}", value(0), names.factor((*draw)++));
  std::string call = fmt::format("op_{}(", info.name);
  for (size_t i = 0; i < step.operands.size(); ++i) call += (i ? ", " : "") + value(i);
  for (int i = 0; i < info.parameters; ++i) call += fmt::format(", {}[{}]", names.immediates, (*immediate)++);
  call += ")";
  const bool wraps = is_short(result) && info.types != MapOpTypes::kSelect;
  return wraps ? fmt::format("wrapped<{}>({})", short_type(result), call) : call;
}

}  // namespace

std::string storage_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kF16: return "F16";
    case DType::kF8E4M3: return "F8E4M3";
    case DType::kF8E5M2: return "F8E5M2";
    case DType::kI64: return "I64";
    case DType::kI32: return "I32";
    case DType::kI16: return "I16";
    case DType::kI8: return "I8";
    case DType::kU64: return "U64";
    case DType::kU32: return "U32";
    case DType::kU16: return "U16";
    case DType::kU8: return "U8";
    case DType::kBool: return "Bool";
    case DType::kF64: break;
  }
  internal_error("print_map", "f64 has no arithmetic on the card");
}

std::string print_steps(const MapProgram& program, std::span<const DType> types, const MapNames& names) {
  std::string text;
  const std::vector<bool> counters = program.counters();
  for (int i = 0; i < program.inputs; ++i)
    if (!counters[static_cast<size_t>(i)])
      text += fmt::format("const {} v{} = {};\n", register_of(types[static_cast<size_t>(i)]), i, names.input(i));
  int immediate = 0, draw = 0, value = program.inputs;
  for (const MapProgram::Step& step : program.steps) {
    const DType result = types[static_cast<size_t>(value)];
    text += fmt::format("const {} v{} = {};\n", register_of(result), value,
                        step_of(step, types, result, names, &immediate, &draw));
    ++value;
  }
  return text;
}

std::vector<float> map_immediates(const MapProgram& program) {
  std::vector<float> immediates;
  for (const MapProgram::Step& step : program.steps) {
    if (step.info().types == MapOpTypes::kDropout) continue;
    const std::array<double, 2> both{step.parameter, step.second};
    for (int i = 0; i < step.info().parameters; ++i)
      immediates.push_back(static_cast<float>(both.at(static_cast<size_t>(i))));
  }
  return immediates;
}

std::vector<const MapProgram::Step*> map_draws(const MapProgram& program) {
  std::vector<const MapProgram::Step*> draws;
  for (const MapProgram::Step& step : program.steps)
    if (step.info().types == MapOpTypes::kDropout) draws.push_back(&step);
  return draws;
}

std::vector<MapPlan::Pass> MapPlan::passes() const {
  std::vector<Pass> passes;
  // First what does not write elements: those may lie over inputs.
  if (space.sums_last) passes.push_back(Pass::kLast);
  if (space.sums_rows)
    passes.push_back(Pass::kRows);
  else if (std::any_of(program.outputs.begin(), program.outputs.end(),
                       [](const MapProgram::Output& output) { return output.reduce == Reduce::kNone; }))
    passes.push_back(Pass::kElements);
  return passes;
}

bool MapPlan::writes(Pass pass, size_t output) const {
  const Reduce reduce = program.outputs[output].reduce;
  if (pass == Pass::kLast) return reduce == Reduce::kSumLast;
  return reduce == Reduce::kNone || (pass == Pass::kRows && reduce == Reduce::kSumRows);
}

namespace {

/// Whether the steps take so much that loads do not show, and their text had better not be there several times.
bool is_heavy(const MapProgram& program) {
  constexpr int kMostFlops = 160;
  int flops = 0;
  for (const MapProgram::Step& step : program.steps) flops += step.info().flops;
  return flops > kMostFlops;
}

}  // namespace

int MapPlan::pack(Pass pass) const {
  if (pass == Pass::kLast || is_heavy(program)) return 1;
  size_t least = 8;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (space.inputs[i].full) least = std::min(least, size_of(inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (program.outputs[i].reduce == Reduce::kNone) least = std::min(least, size_of(outputs[i]));
  int pack = static_cast<int>(std::clamp<size_t>(16 / least, 2, 8));
  if (program.draws()) pack = 8;  // a block of draws
  if (pass == Pass::kRows)
    while (space.columns % pack != 0) pack /= 2;
  return pack;
}

int MapPlan::tile_columns() const {
  int64_t sums = 0;
  for (const MapProgram::Output& output : program.outputs) sums += output.reduce == Reduce::kSumRows;
  constexpr int64_t kMostFloats = 8192, kMostColumns = 64;  // of a block's memory
  int64_t columns = pack(Pass::kRows);
  while (columns < std::min(space.columns, kMostColumns) && 2 * columns * kReduceRows * sums <= kMostFloats)
    columns *= 2;
  return static_cast<int>(columns);
}

namespace {

/// The text of one pass.
class PassPrinter {
 public:
  PassPrinter(const MapPlan& plan, MapPlan::Pass pass, std::string arguments)
      : plan_(plan), pass_(pass), arguments_(std::move(arguments)), pack_(plan.pack(pass)) {
    for (const MapSpace::Input& input : plan.space.inputs) broadcasts_ |= walks(input);
    ragged_ = pass == Pass::kElements && broadcasts_ && plan.space.columns % pack_ != 0;
  }

  std::string print() {
    line("#include \"map_kernel.cuh\"");
    line("namespace ramet_device {{");
    line("RAMET_KERNEL(256, map, {}, a) {{", arguments_);
    line("[[maybe_unused]] constexpr bool kFast = {};", plan_.small);
    line("constexpr int kPack = {};", pack_);
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (plan_.space.inputs[i].uniform)
        line("const {0}::Register x{1} = load_one<{0}>(a.inputs[{1}], 0);", storage_of(plan_.inputs[i]), i);
    print_draws();
    if (pass_ == Pass::kElements) print_elements();
    if (pass_ == Pass::kRows) print_rows();
    if (pass_ == Pass::kLast) print_last();
    line("}}");
    line("}}  // namespace ramet_device");
    return std::move(text_);
  }

 private:
  using Pass = MapPlan::Pass;

  template <typename... Parts>
  void line(fmt::format_string<Parts...> format, Parts&&... parts) {
    text_ += fmt::format(format, std::forward<Parts>(parts)...);
    text_ += '\n';
  }

  /// Whether the place of an element in the input is another than in the space.
  static bool walks(const MapSpace::Input& input) { return !input.counter && !input.full && !input.uniform; }
  size_t dimensions() const { return plan_.space.extents.size(); }

  void print_draws() {
    int draw = 0;
    for (const MapProgram::Step* step : map_draws(plan_.program)) {
      line("MapDrawing draw{0}(a.draws[{0}], a.inputs[{1}]);", draw, step->operands[1]);
      ++draw;
    }
  }

  // A pack a turn of the loop. Rows begin with a pack where their length allows it.
  void print_elements() {
    line("for (Index at = first_index() * kPack; at < a.elements; at += index_step() * kPack) {{");
    line("const Index count = a.elements - at;");
    if (broadcasts_ && !ragged_) {
      line("Index row = at;");
      line("const Index column = take_digit<kFast>(row, a.extents[{}]);", dimensions() - 1);
      print_row_offsets();
    }
    print_loads("at");
    print_body("at");
    line("}}");
  }

  // Tiles of 64 rows and some columns, a block of threads each: all threads make elements, then one a column sums them.
  void print_rows() {
    const int columns = plan_.tile_columns();
    line("constexpr int kColumns = {}, kPacks = kColumns / kPack;", columns);
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (sums(i)) line("RAMET_SHARED(float, sum{}, kSumRows * kColumns);", i);
    line("const Index blocks = (a.rows + kSumRows - 1) / kSumRows;");
    line("for (Index work = blockIdx.x; work < blocks * a.tiles.divisor; work += gridDim.x) {{");
    line("Index block = work;");
    line("const Index first = take_digit<kFast>(block, a.tiles) * kColumns;");
    line("const Index rows = min(a.rows - block * kSumRows, kSumRows);");
    line("for (int pack = threadIdx.x; pack < rows * kPacks; pack += 256) {{");
    line("const int in_tile = pack * kPack;");
    line("const Index row = block * kSumRows + in_tile / kColumns, column = first + in_tile % kColumns;");
    line("constexpr Index count = kPack;");
    line("const Index at = row * a.columns + column;");
    line("if (column >= a.columns) continue;");
    print_row_offsets();
    print_loads("at");
    print_body("at");
    line("}}");
    line("__syncthreads();");
    int summed = 0;
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (sums(i))
        line("sum_tile<kColumns>(sum{0}, rows, a.sums + ({1} * blocks + block) * a.columns, first, a.columns);", i,
             summed++);
    line("__syncthreads();");
    line("}}");
  }

  // Two rows a warp, 16 lanes each.
  void print_last() {
    line("const int lane = static_cast<int>(threadIdx.x) % 16;");
    line("constexpr Index count = 1;");
    line("for (Index pair = first_index() / 32; pair * 2 < a.rows; pair += index_step() / 32) {{");
    line("const Index row = pair * 2 + static_cast<int>(threadIdx.x) % 32 / 16;");
    line("const Index columns = row < a.rows ? a.columns : 0;");
    print_row_offsets();
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (sums(i)) line("float sum{} = 0.0f;", i);
    line("for (Index column = lane; column < columns; column += 16) {{");
    line("const Index at = row * a.columns + column;");
    print_loads("at");
    print_body("at");
    line("}}");
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (!sums(i)) continue;
      line("const float total{0} = sum_of_lanes(sum{0});", i);
      line("if (lane == 0 && row < a.rows) store_one<{0}>(a.outputs[{1}], row, total{1});",
           storage_of(plan_.outputs[i]), i);
    }
    line("}}");
  }

  bool sums(size_t output) const {
    return plan_.writes(pass_, output) && plan_.program.outputs[output].reduce != Reduce::kNone;
  }

  /// Where the row of each input that is not as the space begins: "o3", from the index "row".
  void print_row_offsets() {
    const size_t last = dimensions() - 1;
    bool digits = false;
    for (const MapSpace::Input& input : plan_.space.inputs)
      digits |= walks(input) &&
                std::any_of(input.strides.begin(), input.strides.end() - 1, [](int64_t stride) { return stride != 0; });
    if (digits && last > 0) {
      line("Index digits = row;");
      for (size_t axis = last - 1; axis > 0; --axis)
        line("const Index d{0} = take_digit<kFast>(digits, a.extents[{0}]);", axis);
      line("const Index d0 = digits;");
    }
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!walks(plan_.space.inputs[i])) continue;
      std::string sum;
      for (size_t axis = 0; axis < last; ++axis)
        if (plan_.space.inputs[i].strides[axis] != 0)
          sum += fmt::format("{}d{} * a.strides[{}][{}]", sum.empty() ? "" : " + ", axis, i, axis);
      line("const Index o{} = {};", i, sum.empty() ? "0" : sum);
    }
  }

  /// The registers of the inputs, "x3", from a pack's first element on.
  void print_loads(const std::string& at) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const MapSpace::Input& input = plan_.space.inputs[i];
      if (input.counter || input.uniform) continue;
      const std::string type = storage_of(plan_.inputs[i]);
      if (walks(input) && !ragged_ && input.strides.back() == 0) {
        line("const {0}::Register x{1} = load_one<{0}>(a.inputs[{1}], o{1});", type, i);
        continue;
      }
      line("{}::Register x{}[kPack];", type, i);
      if (input.full)
        line("load_pack<{0}, kPack>(a.inputs[{1}], {2}, count, x{1});", type, i, at);
      else if (!ragged_ && lies_in_packs(input))
        line("load_pack<{0}, kPack>(a.inputs[{1}], o{1} + column, count, x{1});", type, i);
      else if (!ragged_)
        line(
            "load_strided<{0}, kPack>(a.inputs[{1}], o{1} + column * a.strides[{1}][{2}], a.strides[{1}][{2}], "
            "count, x{1});",
            type, i, dimensions() - 1);
    }
    if (ragged_) print_ragged_loads(at);
  }

  /// Whether packs of the space are packs of the input.
  bool lies_in_packs(const MapSpace::Input& input) const {
    return input.strides.back() == 1 && std::all_of(input.strides.begin(), input.strides.end() - 1,
                                                    [this](int64_t stride) { return stride % pack_ == 0; });
  }

  void print_ragged_loads(const std::string& at) {
    line("RAMET_UNROLL for (int i = 0; i < kPack; ++i) {{");
    line("Index row = {} + i;", at);
    line("if (i >= count) row = 0;");
    line("const Index column = take_digit<kFast>(row, a.extents[{}]);", dimensions() - 1);
    print_row_offsets();
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (walks(plan_.space.inputs[i]))
        line("x{1}[i] = load_one<{0}>(a.inputs[{1}], o{1} + column * a.strides[{1}][{2}]);",
             storage_of(plan_.inputs[i]), i, dimensions() - 1);
    line("}}");
  }

  std::string input_register(int input) const {
    const MapSpace::Input& walked = plan_.space.inputs[static_cast<size_t>(input)];
    const bool single = walked.uniform || (walks(walked) && !ragged_ && walked.strides.back() == 0);
    return fmt::format("x{}{}", input, single ? "" : "[i]");
  }

  /// The steps for each element of a pack, and what becomes of the outputs.
  void print_body(const std::string& at) {
    const bool draws = plan_.program.draws(), whole = plan_.blocks_of_draws && pack_ == 8;
    if (draws && whole) {
      line("const Index logical = {};", plan_.placed ? fmt::format("place_of<kFast>(a.place, {})", at) : at);
      for (size_t draw = 0; draw < map_draws(plan_.program).size(); ++draw) line("draw{}.draw_block(logical);", draw);
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (plan_.writes(pass_, i) && !sums(i)) line("{}::Register y{}[kPack];", storage_of(plan_.outputs[i]), i);
    line("RAMET_UNROLL for (int i = 0; i < kPack; ++i) {{");
    if (draws && !whole)
      line("const Index logical = {};",
           plan_.placed ? fmt::format("place_of<kFast>(a.place, {} + i)", at) : fmt::format("{} + i", at));
    MapNames names;
    names.input = [this](int input) { return input_register(input); };
    names.immediates = "a.immediates";
    names.factor = [whole](int draw) {
      return whole ? fmt::format("draw{}.factor_in_block(i)", draw) : fmt::format("draw{}.factor_of(logical)", draw);
    };
    text_ += print_steps(plan_.program, plan_.types, names);
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      if (!plan_.writes(pass_, i)) continue;
      const int value = plan_.program.outputs[i].value;
      if (sums(i) && pass_ == Pass::kRows)
        line("sum{}[in_tile + i] = v{};", i, value);
      else if (sums(i))
        line("sum{0} = sum{0} + v{1};", i, value);
      else
        line("y{}[i] = v{};", i, value);
    }
    line("}}");
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (plan_.writes(pass_, i) && !sums(i))
        line("store_pack<{0}, kPack>(a.outputs[{1}], {2}, count, y{1});", storage_of(plan_.outputs[i]), i, at);
  }

  const MapPlan& plan_;
  Pass pass_;
  std::string arguments_, text_;
  int pack_;
  bool broadcasts_ = false;
  bool ragged_ = false;  ///< packs lie across the ends of rows
};

}  // namespace

std::string MapPlan::text(Pass pass, const std::string& arguments) const {
  return PassPrinter(*this, pass, arguments).print();
}

}  // namespace ramet::kernel::cuda
