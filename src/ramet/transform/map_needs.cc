#include "ramet/transform/map_needs.h"

namespace ramet::transform {

std::vector<int> needed_values(const MapProgram& program, const std::vector<int>& wanted,
                               const std::map<int, int>& known) {
  std::vector<bool> is_needed(static_cast<size_t>(program.values()), false);
  for (const int value : wanted) is_needed[static_cast<size_t>(value)] = true;
  for (int value = program.values() - 1; value >= program.inputs; --value)
    if (is_needed[static_cast<size_t>(value)] && !known.contains(value))
      for (const int operand : program.steps[static_cast<size_t>(value - program.inputs)].operands)
        is_needed[static_cast<size_t>(operand)] = true;
  std::vector<int> values;
  for (int value = 0; value < program.values(); ++value)
    if (is_needed[static_cast<size_t>(value)] && !known.contains(value)) values.push_back(value);
  return values;
}

}  // namespace ramet::transform
