#pragma once

#include <cstdint>

#include "ramet/ops/exact_sum.h"

namespace ramet::cpu {

/// One stretch of elements, all f32; outputs may lie over their inputs.
struct UpdateArguments {
  int64_t count = 0;
  const float *w = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  float *w_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  float grad_scale = 1, rate = 0, weight_decay = 0;
  float momentum = 0;
  bool nesterov = false;
  float beta2 = 0, one_less_beta1 = 0, one_less_beta2 = 0, epsilon = 0;
  float inverse_correction1 = 1, inverse_correction2 = 1;
  float keep = 1;  ///< decoupled decay: what w is multiplied by
};

/// An exact sum of squares under way on one thread: squares of the elements' 24-bit integers, added up by exponent.
/// Neighbours go to different tables, so that an addition need not wait for the one before to reach memory.
struct SquareTables {
  static constexpr int kTables = 8, kExponents = 256;
  /// Elements before a flush: an entry holds 2^16 squares of 48 bits, and vectors of four lanes fill four tables.
  static constexpr int64_t kMost = int64_t{4} << 16;
  uint64_t entry[kTables][kExponents] = {};
  int64_t elements = 0;  ///< since the last flush
  int64_t sum[kExactIntegers] = {};

  /// Brings the entries into the sum.
  void flush();
};

struct UpdateLoops {
  using Loop = void (*)(const UpdateArguments&);
  Loop sgd;  ///< momentum state in m (null: none)
  Loop adam;
  Loop lamb_direction;  ///< u to w_out
  Loop lamb_apply;      ///< g is u; rate has the trust ratio in it
  /// Adds the squares of up to 2^16 elements.
  void (*squares)(const float* from, int64_t count, SquareTables& tables);
};
const UpdateLoops& update_loops();

}  // namespace ramet::cpu
