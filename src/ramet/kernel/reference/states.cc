#include <cmath>
#include <cstring>
#include <string>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

void constant(const ReferenceOperands& operands) {
  const std::vector<std::byte>& bytes = operands.attributes().get_tensor("data").bytes();
  if (!bytes.empty()) std::memcpy(operands.output_bytes(0), bytes.data(), bytes.size());
}

/// One chain of f32 operations an element.
void fold(const ReferenceOperands& operands) {
  const std::string& by = operands.attributes().get_string("by");
  const auto momentum = static_cast<float>(operands.attributes().get_float_or("momentum", 0)), keep = 1 - momentum;
  const auto next = [&](float state, float value) {
    if (by == "average") return keep * state + momentum * value;
    if (by == "sum") return state + value;
    if (by == "last") return value;
    if (std::isnan(state) || std::isnan(value)) return std::nanf("");
    return (by == "max" ? value > state : value < state) ? value : state;
  };
  bool finite = true;
  for (int guard = 2; guard < operands.inputs(); ++guard) finite = finite && std::isfinite(operands.get(guard, 0));
  const int64_t elements = operands.output_type(0).elements();
  const int64_t rows = finite ? operands.input_type(1).shape.dim(0) : 0;
  for (int64_t i = 0; i < elements; ++i) {
    auto state = static_cast<float>(operands.get(0, i));
    for (int64_t row = 0; row < rows; ++row)
      state = next(state, static_cast<float>(operands.get(1, row * elements + i)));
    operands.set(0, i, static_cast<double>(state));
  }
}

}  // namespace

void add_reference_states(Backend& backend) {
  add_reference(backend, "constant", constant);
  add_reference(backend, "fold", fold);
}

}  // namespace ramet::kernel
