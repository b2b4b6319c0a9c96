#include "ramet/kernel/reference/reference.h"
#include "ramet/kernel/reference/states.h"

namespace ramet::kernel {
namespace {

double scale_of(const ReferenceOperands& operands) {
  return operands.attributes().has("scale") ? operands.attributes().get_float("scale") : 1;
}

void run_narrow(const ReferenceOperands& operands) {
  const States states(operands, -1, operands.attributes().get_bool_or("saturate", false));
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i)
    states.set(0, i, scale_of(operands) * states.get(0, i));
}

void run_accumulate(const ReferenceOperands& operands) {
  const States states(operands, -1, false);
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i)
    states.set(0, i, states.get(0, i) + scale_of(operands) * states.get(1, i));
}

void run_join(const ReferenceOperands& operands) {
  const auto* high = static_cast<const uint16_t*>(operands.input_bytes(0));
  const auto* low = static_cast<const uint16_t*>(operands.input_bytes(1));
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) operands.set(0, i, join_f32({high[i], low[i]}));
}

void run_split(const ReferenceOperands& operands) {
  auto* high = static_cast<uint16_t*>(operands.output_bytes(0));
  auto* low = static_cast<uint16_t*>(operands.output_bytes(1));
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i) {
    const SplitFloat halves = split_f32(static_cast<float>(operands.get(0, i)));
    high[i] = halves.high, low[i] = halves.low;
  }
}

}  // namespace

void add_reference_narrow(Backend& backend) {
  add_reference(backend, "narrow", run_narrow);
  add_reference(backend, "accumulate", run_accumulate);
  add_reference(backend, "join_halves", run_join);
  add_reference(backend, "split_halves", run_split);
}

}  // namespace ramet::kernel
