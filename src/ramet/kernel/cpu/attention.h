#pragma once

#include "ramet/kernel/cpu/attention_tile.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Adds the kernels of `attention`, `attention_grad` and `cached_attention`, "tiles", and of `rotary`.
void add_cpu_attention(Backend& backend);

/// The kernels of the three ops of attention, whose products of bf16 are by `bf16_product`, or, where it is null, by
/// the processor's own instructions for bf16 and else in f32.
void add_tiled_attention(Backend& backend, TileProductFunction bf16_product);

}  // namespace ramet::kernel
