#include "ramet/transform/append_map.h"

#include <utility>

namespace ramet::transform {

std::vector<int> append_steps(MapProgram& program, const MapProgram& own, std::vector<int> inputs) {
  std::vector<int> values = std::move(inputs);
  for (MapProgram::Step step : own.steps) {
    for (int& operand : step.operands) operand = values[static_cast<size_t>(operand)];
    values.push_back(program.values());
    program.steps.push_back(std::move(step));
  }
  return values;
}

int append_rounding(MapProgram& program, int value, DType dtype) {
  if (dtype != DType::kBF16 && dtype != DType::kF16) return value;
  MapProgram::Step step;
  step.op = map_op_index(dtype == DType::kBF16 ? "round_bf16" : "round_f16");
  step.operands = {value};
  program.steps.push_back(std::move(step));
  return program.values() - 1;
}

}  // namespace ramet::transform
