#pragma once

#include <atomic>

#include "ramet/kernel/cpu/sparse_lines.h"

namespace ramet::kernel::cpu {

// Sparse products of bf16 by the processors' instruction for pairs (AVX512_BF16), with the bits of the kernels that
// widen to f32. The instruction adds two products to a lane of f32, that of the upper halves first: two fused
// multiply-adds, but that it takes and makes no denormal numbers. So the lower k of a pair is kept in the upper half,
// and where operands are so small that a denormal number may appear, two multiply-adds in f32 stand for it.

/// Whether these products are to be used for blocks with `along` elements along the sum, `single` if of one element. On
/// processors with AMX they are not: there the instruction has half the rate of multiply-adds in f32.
bool takes_bf16_pairs(DType left, DType right, int64_t along, bool single);

/// Whether the instruction is a chain of two multiply-adds here, found out on the first call by comparing.
bool pairs_are_chains();

/// The least magnitude that is not zero among values of bf16: its bits, less one.
using LeastBits = uint16_t;
inline constexpr LeastBits kNoLeast = 0xffff;  ///< of zeros only
inline LeastBits least_bits(uint16_t bf16) { return static_cast<LeastBits>((bf16 & 0x7fff) - 1); }
/// Whether neither operands with these least magnitudes nor any sum of their products are denormal: every product, and
/// so every rounded sum, is a multiple of 2^-126, the least normal number.
bool stays_normal(LeastBits a, LeastBits b);
/// Which arithmetic a product of such operands takes.
inline bool takes_instruction(LeastBits a, LeastBits b) { return pairs_are_chains() && stays_normal(a, b); }

/// The values of blocks [begin, end) as pairs along the sum: [block][pair][element across it], the lower k above.
LeastBits pair_values(const ops::SparseGrid& grid, bool transpose, const uint16_t* values, int64_t begin, int64_t end,
                      uint32_t* to);
/// Puts the value of every second element of parts [begin, end) of lines, from a part's first on, into the lower half
/// of the one before. A last one without a partner meets zeros.
LeastBits pair_singles(const SparseLines& lines, int64_t begin, int64_t end, SparseSingle* singles);

/// The least of what several threads have found.
class SharedLeast {
 public:
  void lower(LeastBits least) {
    LeastBits now = least_;
    while (least < now && !least_.compare_exchange_weak(now, least)) {
    }
  }
  LeastBits get() const { return least_; }

 private:
  std::atomic<LeastBits> least_ = kNoLeast;
};

/// Tokens [0, tokens) of x [tokens][width] as a panel of 64 tokens (zeros beyond) of pairs of features:
/// [width / 2][64], the even feature of a pair in the upper half.
LeastBits pack_feature_pairs(const uint16_t* x, int64_t width, int64_t tokens, void* panel);
/// The same as a panel of single features: [width][64], its tokens in the order of run_bf16_singles.
LeastBits pack_single_features(const uint16_t* x, int64_t width, int64_t tokens, void* panel);
/// The same panels of 64 tokens from x [width][stride], where the tokens of a feature are side by side.
LeastBits take_feature_pairs(const uint16_t* x, int64_t stride, int64_t width, void* panel);
LeastBits take_single_features(const uint16_t* x, int64_t stride, int64_t width, void* panel);
/// Features [0, count) of tokens [0, tokens) of x, in rows `width` apart, as rows of `stride` tokens: whole groups of
/// 32 tokens, zeros beyond. least[f] is lowered to the least of feature f.
void pack_token_pairs(const uint16_t* x, int64_t width, int64_t count, int64_t tokens, uint16_t* to, int64_t stride,
                      LeastBits* least);

/// Lowers least[f] to the least of feature f of x [count][stride], `tokens` tokens (a multiple of 32).
void see_token_pairs(const uint16_t* x, int64_t stride, int64_t count, int64_t tokens, LeastBits* least);

/// Features [0, count) of `tokens` tokens from a panel [count][64] of sums, none of them denormal, to rows of y,
/// `width` apart. `past_caches`: rows of y begin at multiples of 64 bytes, and are written past the caches.
void unpack_bf16_panel(const float* panel, int64_t count, int64_t tokens, uint16_t* y, int64_t width, bool past_caches);
/// The same of 64 tokens to y [count][stride], where the tokens of a feature are side by side.
void put_bf16_panel(const float* panel, int64_t count, uint16_t* y, int64_t stride, bool past_caches);

/// Some elements of a line for the 64 tokens of a panel: chains over the blocks [begin, end), stored at out[i * 64].
struct Bf16Line {
  const SparseLines& lines;
  int64_t pairs = 0;                 ///< of a block, along the sum
  const uint32_t* values = nullptr;  ///< of the first element: [block][pair][lines.high], the lower k above
  const void* panel = nullptr;
  int64_t begin = 0, end = 0;
  float* out = nullptr;
  bool instruction = true;
};
/// `count`: 8, or 1 to 4 elements.
void run_bf16_line(const Bf16Line& line, int64_t count);
/// Of blocks of one element. Their values are pairs (pair_singles).
void run_bf16_singles(const Bf16Line& line);

/// Sums of products of `rows` rows of a with rows of b over `tokens` tokens, in the order of `sparse_outer`. The rows
/// `next` of b are read afterwards.
struct Bf16Outer {
  int64_t tokens = 0;  ///< a multiple of 32
  const uint16_t *const *a = nullptr, *const *b = nullptr, *const *next = nullptr;
  bool instruction = true;
};
inline constexpr int64_t kBf16Group = 16;  ///< rows of b that one row of a meets at once
/// out [4][4], of 4 rows of a and of b.
void run_bf16_tile(const Bf16Outer& outer, float* out);
/// out [16], of 1 row of a and kBf16Group of b.
void run_bf16_group(const Bf16Outer& outer, float* out);

/// sums + the products of the pairs of 16 lanes, by the instruction: for pairs_are_chains.
void add_bf16_pairs(const uint32_t* a, const uint32_t* b, float* sums);

}  // namespace ramet::kernel::cpu
