#pragma once

#include "ramet/kernel/cpu/tiled_attention.h"

namespace ramet::kernel {

/// Blocks of queries [begin, end) of all heads of all samples, in that order, or whole heads when the form has
/// segments; `bf16_product` is null where products are in f32.
void attention_forward_blocks(const AttentionForm& form, TileProductFunction bf16_product,
                              const AttentionOperands& operands, char* scratch, int64_t begin, int64_t end);
/// What a thread computes one after another in the backward pass. Without a gradient of the bias, the query heads of
/// one sample that share a head of keys. With it, all that one sum of that gradient is made of: a block of samples, and
/// a head of keys or, where the bias is the same for all heads, a chunk of them.
struct BackwardUnits {
  int64_t blocks;     ///< of samples
  int64_t head_sets;  ///< of heads of keys
  int64_t planes;     ///< sums of the bias's gradient that a unit makes, one for each of its query heads or one
  explicit BackwardUnits(const AttentionForm& form)
      : blocks(form.sample_blocks()),
        head_sets(form.bias_sums_heads() ? form.chunks : form.key_heads),
        planes(!form.bias_gradient      ? 0
               : form.bias_sums_heads() ? 1
                                        : form.group()) {}
  int64_t count() const { return blocks * head_sets; }
  /// Whether the bias's gradient is a sum of what units make.
  bool combines(const AttentionForm& form) const {
    return (form.bias_sums_samples() && blocks > 1) || (form.bias_sums_heads() && head_sets > 1);
  }
};

/// Units [begin, end), blocks of samples first. `dbias` [blocks, head sets, planes, queries or 1, keys or 1] gets sums
/// of the bias's gradient.
void attention_backward_units(const AttentionForm& form, TileProductFunction bf16_product,
                              const AttentionOperands& operands, float* dbias, char* scratch, int64_t begin,
                              int64_t end);

}  // namespace ramet::kernel
