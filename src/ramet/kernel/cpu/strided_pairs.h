#pragma once

#include <cstdint>

namespace ramet::kernel {

/// A product of bf16 matrices whose operands are read as they lie, the first one transposed: element (i, p) of a is
/// a[p * a_stride + i], that of b is b[p * b_stride + j]. Rows of c are `c_stride` floats apart, at least n rounded up
/// to 16; floats between are overwritten.
struct StridedPairs {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_stride;
  const uint16_t* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  void* work;  ///< strided_pairs_work bytes, at a multiple of 64
};

/// Bytes that a product needs beside its result.
int64_t strided_pairs_work(int64_t m, int64_t n, int64_t c_stride);

/// c = a x b in f32, by the instruction for pairs of bf16 (AVX512_BF16): for processors that have it. Each element is a
/// chain of pairs of neighbouring k over each strided_chain(k), from zero; chains are added in order, as in oneDNN's
/// products. Some rows of k at a time become pairs in the second-level cache, so that no whole operand is copied.
void strided_pairs(const StridedPairs& product);

inline constexpr int64_t kPairColumns = 64;  ///< of a panel

/// `rows` rows of `columns` columns, `stride` elements apart, as panels of kPairColumns columns, one after another:
/// [panel][pair of rows][column], in the last one zeros behind the last column up to a multiple of 16; a last row
/// without a partner meets zeros. For processors with AVX512_BF16.
void pack_pairs(const uint16_t* from, int64_t stride, int64_t rows, int64_t columns, uint32_t* to);

}  // namespace ramet::kernel
