#pragma once

#include "ramet/kernel/cpu/tiled_attention.h"

namespace ramet::kernel {

/// Blocks of queries [begin, end) of all heads of all samples, in that order, or whole heads when the form has
/// segments; `bf16` says how products are made.
void attention_forward_blocks(const AttentionForm& form, bool bf16, const AttentionOperands& operands, char* scratch,
                              int64_t begin, int64_t end);
/// Heads [begin, end) of all samples.
void attention_backward_heads(const AttentionForm& form, bool bf16, const AttentionOperands& operands, char* scratch,
                              int64_t begin, int64_t end);

}  // namespace ramet::kernel
