#pragma once

#include "ramet/ir/op.h"

namespace ramet::ops {

/// A node `rotary` as its kernels see it: a [batch, sequence, heads, head_size], of whose heads the first 2 `pairs`
/// elements turn.
struct RotaryForm {
  int64_t batch = 0, sequence = 0, heads = 0, head_size = 0;
  int64_t pairs = 0;
  int64_t sample_stride = 0;  ///< between samples in the tables of angles; 0: one table for all
  bool neighbours = false;    ///< pair i is elements 2i and 2i+1, not i and i + pairs
  bool back = false;          ///< sines count negative
};
/// Throws Error naming the node when the operands do not fit.
RotaryForm rotary_form(const NodeSignature& node);

}  // namespace ramet::ops
