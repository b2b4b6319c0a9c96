#pragma once

#include <cstring>
#include <optional>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rounding.h"

namespace ramet::kernel {

/// The states of an update as double: narrow ones as ops/rounding.h has them, a split weight joined. Output
/// `weight_output` is the new weight.
class States {
 public:
  States(const ReferenceOperands& operands, int weight_output, bool saturate = true)
      : operands_(operands), weight_output_(weight_output), saturate_(saturate) {
    split_ = operands.attributes().get_bool_or("split", false);
    const bool draws = rounds_stochastically(operands.node());
    low_in_ = operands.inputs() - 1 - draws;
    if (!draws) return;
    position_.emplace(operands.node());
    const int last = operands.inputs() - 1;
    const int64_t counter[2] = {operands.get_int(last, 0), operands.get_int(last, 1)};
    draw_.emplace(operands.node(), counter, position_->logical_elements());
  }

  double get(int input, int64_t i, StateRole role = StateRole::kPlain) const {
    if (split_ && input == 0)
      return join_f32({bits(operands_.input_bytes(0), i), bits(operands_.input_bytes(low_in_), i)});
    return state_value(operands_.get(input, i), operands_.input_type(input).dtype, role);
  }
  void set(int output, int64_t i, double value, StateRole role = StateRole::kPlain) const {
    if (split_ && output == weight_output_) {
      const SplitFloat halves = split_f32(static_cast<float>(value));
      static_cast<uint16_t*>(operands_.output_bytes(output))[i] = halves.high;
      static_cast<uint16_t*>(operands_.output_bytes(operands_.outputs() - 1))[i] = halves.low;
      return;
    }
    const DType dtype = operands_.output_type(output).dtype;
    const double stored = state_stored(value, dtype, role);
    if (!is_narrow(dtype)) return operands_.set(output, i, stored);
    const auto value_f32 = static_cast<double>(static_cast<float>(stored));  // what arithmetic in f32 would round
    const uint32_t code = draw_ ? round_stochastic(value_f32, dtype, draw(output, i), saturate_)
                                : round_nearest(value_f32, dtype, saturate_);
    if (size_of(dtype) == 2)
      static_cast<uint16_t*>(operands_.output_bytes(output))[i] = static_cast<uint16_t>(code);
    else
      static_cast<uint8_t*>(operands_.output_bytes(output))[i] = static_cast<uint8_t>(code);
  }
  /// Output element i becomes what input element i is, to the bit.
  void keep(int output, int input, int64_t i) const {
    copy(operands_.output_bytes(output), operands_.input_bytes(input), operands_.input_type(input).dtype, i);
    if (split_ && input == 0)
      copy(operands_.output_bytes(operands_.outputs() - 1), operands_.input_bytes(low_in_), DType::kU16, i);
  }

 private:
  static uint16_t bits(const void* data, int64_t i) { return static_cast<const uint16_t*>(data)[i]; }
  static void copy(void* to, const void* from, DType dtype, int64_t i) {
    const size_t size = size_of(dtype), at = static_cast<size_t>(i) * size;
    std::memmove(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, size);
  }
  uint16_t draw(int output, int64_t i) const {
    const uint16_t bits = draw_->stream().bits16(draw_->first + static_cast<uint64_t>(position_->index(i)));
    return static_cast<uint16_t>(bits * rounding_factor(output));
  }

  const ReferenceOperands& operands_;
  const int weight_output_;
  const bool saturate_;
  bool split_ = false;
  int low_in_ = 0;
  std::optional<Position> position_;
  std::optional<RoundingDraw> draw_;
};

}  // namespace ramet::kernel
