#pragma once

#include <cstdint>

namespace ramet::kernel {

/// Columns of a panel of operand b of a tile product.
inline constexpr int64_t kPanel = 64;

/// c [m,n] (+)= a [m,k] x b [k,n], all of k by one chain of multiply-adds in order of k, whatever m and n. Operands are
/// 32-bit units: f32, or pairs of bf16 (two products a step). `a` is row-major with `a_stride` units between rows; `b`
/// is in panels of 64 columns, `panel_stride` units apart, each row-major [k][64]; n is a multiple of 16 (columns
/// beyond b's own are zero there); `add` continues from what c holds.
struct TileProduct {
  int64_t m, n, k;
  const uint32_t* a;
  int64_t a_stride;
  const uint32_t* b;
  int64_t panel_stride;
  float* c;
  int64_t c_stride;
  bool add;
};
using TileProductFunction = void (*)(const TileProduct& product);
void tile_product_f32(const TileProduct& product);
/// On processors with AVX512_BF16 only; with AMX, by its tiles (amx_product.h says in which order).
void tile_product_bf16(const TileProduct& product);
void tile_product_avx512bf16(const TileProduct& product);

/// Columns that attention gives a product a multiple of: vectors, or whole panels, which tiles are faster with. Null:
/// in f32.
inline int64_t whole_columns(TileProductFunction bf16_product) {
  return !bf16_product || bf16_product == tile_product_avx512bf16 ? 16 : kPanel;
}

}  // namespace ramet::kernel
