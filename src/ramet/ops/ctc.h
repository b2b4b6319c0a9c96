#pragma once

#include <cstdint>

#include "ramet/ir/op.h"

namespace ramet::ops {

/// What `ctc_loss` and its gradient read. The extended target of a sample is its labels with a blank before, between
/// and behind them: 2 target_length + 1 symbols (Graves et al., "Connectionist temporal classification", ICML 2006).
struct CtcForm {
  int64_t times = 0, samples = 0, classes = 0;  ///< log_probs [times, samples, classes]
  int64_t longest = 0;                          ///< targets [samples, longest]
  int64_t blank = 0;
  bool zero_infinity = false;

  /// Class of symbol `position` of the extended target of these labels.
  int64_t symbol(const int32_t* labels, int64_t position) const { return position % 2 ? labels[position / 2] : blank; }
  /// Whether a path may go from symbol position - 2 to this one at once.
  bool may_skip(const int32_t* labels, int64_t position) const {
    return position % 2 == 1 && position >= 3 && labels[position / 2] != labels[position / 2 - 1];
  }
};
/// Throws Error naming the node when its operands contradict each other.
CtcForm ctc_form(const NodeSignature& node);
/// Throws Error (a failure at run time) when lengths or labels of sample `sample` are out of range.
void check_ctc_sample(const NodeSignature& node, const CtcForm& form, int64_t sample, const int32_t* labels,
                      int64_t input_length, int64_t target_length);

}  // namespace ramet::ops
