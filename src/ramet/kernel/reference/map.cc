#include <cmath>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/position.h"
#include "ramet/ops/random_bits.h"

// The oracle of map programs, and so of every element-wise op: one element at a time, in double.

namespace ramet::kernel {
namespace {

/// A value of a program at one element: `number` for floats, `integer` for integers and bools.
struct MapValue {
  double number = 0;
  int64_t integer = 0;
};

/// Towards zero, held in range; NaN is 0.
int64_t truncated(double value, DType dtype) {
  char bytes[8];
  store_element(bytes, dtype, 0, value);
  return load_integer(bytes, dtype, 0);
}

double as_f32(double value) { return static_cast<float>(value); }

MapValue cast_value(const MapValue& value, DType from, DType to) {
  if (is_floating(from)) {
    if (is_floating(to)) return {to == DType::kF32 && from == DType::kF64 ? as_f32(value.number) : value.number, 0};
    // A bool is whether the number differs from 0; NaN does.
    if (to == DType::kBool) return {0, value.number != 0};
    return {0, truncated(value.number, to)};
  }
  if (is_floating(to)) {
    // Rounded once, as a load and a store of the element would be.
    const double number = from == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value.integer))
                                              : static_cast<double>(value.integer);
    return {number, 0};
  }
  return {0, wrap_integer(value.integer, to)};
}

/// A program prepared for one node.
class MapOracle {
 public:
  explicit MapOracle(const ReferenceOperands& operands)
      : operands_(operands),
        program_(map_program_of(operands.node())),
        space_(map_space_of(operands.node())),
        position_(operands.node(), space_) {
    std::vector<DType> inputs;
    for (int i = 0; i < operands.inputs(); ++i) inputs.push_back(operands.input_type(i).dtype);
    types_ = map_value_types(program_, inputs, operands.node().text());
    counters_ = program_.counters();
    values_.resize(types_.size());
  }

  void run() {
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      sums_.emplace_back(program_.outputs[i].reduce == MapProgram::Reduce::kNone
                             ? 0
                             : static_cast<size_t>(operands_.output_type(static_cast<int>(i)).elements()),
                         0.0);
    int64_t element = 0;
    for_each_index(space_, [&](const std::vector<int64_t>& index) {
      load(index);
      for (size_t s = 0; s < program_.steps.size(); ++s) step(s, element);
      store(element++);
    });
    for (size_t i = 0; i < sums_.size(); ++i)
      for (size_t j = 0; j < sums_[i].size(); ++j)
        operands_.set(static_cast<int>(i), static_cast<int64_t>(j), sums_[i][j]);
  }

 private:
  void load(const std::vector<int64_t>& index) {
    for (int i = 0; i < program_.inputs; ++i) {
      if (counters_[static_cast<size_t>(i)]) continue;
      const int64_t offset = broadcast_offset(operands_.input_type(i).shape, index);
      MapValue& value = values_[static_cast<size_t>(i)];
      if (is_floating(types_[static_cast<size_t>(i)]))
        value.number = operands_.get(i, offset);
      else
        value.integer = operands_.get_int(i, offset);
    }
  }

  void step(size_t s, int64_t element) {
    const MapProgram::Step& step = program_.steps[s];
    const MapOpInfo& info = step.info();
    const size_t result = static_cast<size_t>(program_.inputs) + s;
    const size_t first = static_cast<size_t>(step.operands[0]);
    MapValue& value = values_[result];
    if (info.types == MapOpTypes::kCast) {
      value = cast_value(values_[first], types_[first], step.dtype);
    } else if (info.types == MapOpTypes::kDropout) {
      value.number = values_[first].number * dropout_factor(step, element);
    } else {
      MapValue v[3];
      for (size_t i = 0; i < step.operands.size(); ++i) v[i] = values_[static_cast<size_t>(step.operands[i])];
      const bool select = info.types == MapOpTypes::kSelect;
      if (is_floating(types_[static_cast<size_t>(step.operands[select ? 1 : 0])])) {
        if (select) v[0].number = static_cast<double>(v[0].integer);
        value.number = info.scalar(v[0].number, v[1].number, v[2].number, step.parameter, step.second);
        if (types_[result] == DType::kBool) value.integer = value.number != 0;
      } else {
        const DType type = types_[static_cast<size_t>(step.operands[select ? 1 : 0])];
        value.integer =
            wrap_integer(integer_meaning(info, type, v[0].integer, v[1].integer, v[2].integer), types_[result]);
      }
    }
  }

  double dropout_factor(const MapProgram::Step& step, int64_t element) const {
    const auto* counter = static_cast<const int64_t*>(operands_.input_bytes(step.operands[1]));
    const DropoutDraw draw(step.parameter, static_cast<int64_t>(step.seed), static_cast<int64_t>(step.tensor), counter,
                           position_.logical_elements());
    return draw.factor(position_.index(element));
  }

  void store(int64_t element) {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const MapProgram::Output& output = program_.outputs[i];
      const size_t source = static_cast<size_t>(output.value);
      const int target = static_cast<int>(i);
      if (output.reduce != MapProgram::Reduce::kNone) {
        const int64_t last = space_.dim(-1);
        const int64_t where = output.reduce == MapProgram::Reduce::kSumRows ? element % last : element / last;
        sums_[i][static_cast<size_t>(where)] += values_[source].number;
      } else if (is_floating(types_[source])) {
        operands_.set(target, element, values_[source].number);
      } else {
        operands_.set_int(target, element, values_[source].integer);
      }
    }
  }

  const ReferenceOperands& operands_;
  const MapProgram program_;
  const Shape space_;
  const Position position_;
  std::vector<DType> types_;
  std::vector<bool> counters_;
  std::vector<MapValue> values_;
  std::vector<std::vector<double>> sums_;
};

}  // namespace

void run_reference_map(const ReferenceOperands& operands) { MapOracle(operands).run(); }

void add_reference_map(Backend& backend) {
  const auto run = run_reference_map;
  for (const MapOpInfo& info : map_op_table())
    if (info.types != MapOpTypes::kDropout) add_reference(backend, std::string(info.name), run);
  add_reference(backend, "map", run);
  add_reference(backend, "normalize_channels", run);
  // Programs never hold one: it is simplified to "scale".
  add_reference(backend, "rescale", [](const ReferenceOperands& operands) {
    const double factor = operands.attributes().get_float("forward");
    for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) operands.set(0, i, operands.get(0, i) * factor);
  });
}

}  // namespace ramet::kernel
