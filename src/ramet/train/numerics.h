#pragma once

#include <string>
#include <vector>

#include "ramet/runtime/numerics.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// The powers of two that a type holds.
struct NumericRange {
  std::string type;  ///< "f16"
  int most = 0;      ///< exponent of its greatest number
  int normal = 0;    ///< of its least normal number
  int least = 0;     ///< of its least number; smaller numbers become 0
};
/// Of "f32", "bf16", "f16", "f8e4m3" or "f8e5m2".
NumericRange numeric_range(const std::string& type);

/// A tensor held against the type that it is, or will be, computed in: weights and gradients against the options'
/// compute type, what instructions give and optimizer states against their own. Shares are of elements that are not 0.
struct NumericsFinding {
  NumericsRecord record;
  NumericRange range;
  int64_t elements = 0, zeros = 0;
  double overflow = 0;                                 ///< share beyond the range, infinities and NaNs among them
  double underflow = 0;                                ///< share that is too small: it becomes 0
  double subnormal = 0;                                ///< share that loses digits
  double compute_overflow = 0, compute_underflow = 0;  ///< as if in the compute type, whatever its own type
  bool out_of_range() const;
};

/// Share of elements that may underflow before a tensor counts as out of range.
inline constexpr double kMostUnderflow = 0.01;

/// The findings of a check of numerics in one step, in the order of the program.
struct NumericsReport {
  int64_t step = 0;  ///< from 1: the step that was about to be made
  std::string precision;
  std::vector<NumericsFinding> findings;

  /// The first tensor out of range, or null.
  const NumericsFinding* first_out_of_range() const;
};
NumericsReport judge_numerics(std::vector<NumericsRecord> records, const TrainOptions& options, int64_t step);

/// One JSON object: step, precision, first_out_of_range (or null), tensors [{name, kind, op, stage, type, elements,
/// zeros, range, overflow, underflow, subnormal, compute_overflow, compute_underflow, infinities, nans, exponents
/// {"-3": count}}], in the order of the program.
std::string json_of(const NumericsReport& report);

}  // namespace ramet::train
