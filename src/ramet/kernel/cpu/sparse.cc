// Products with block-sparse matrices. Tokens lie along vectors: a panel holds 64 tokens of every feature, so one
// layout serves all block sizes and both directions, and a stored zero or the size of a block changes no bit.

#include "ramet/kernel/cpu/sparse.h"

#include <algorithm>
#include <numeric>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/sparse.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseOuter;
using cpu::SparseProduct;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Df()));
constexpr int kRows = 4;                        // of a block that one pass computes
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // of tokens
constexpr int64_t kStep = kVectors * kLanes;    // tokens of one pass
constexpr int64_t kSquare = 64;                 // features that one transposition takes

// --- packing ---

/// Features [first, first + count) of 64 tokens as rows of a panel with `stride` tokens. `token(i)` is the row of x for
/// the i-th token of the panel, or -1 for a zero.
template <typename T, typename TokenOf>
void pack_square(const T* x, int64_t width, int64_t first, int64_t count, const TokenOf& token, float* panel,
                 int64_t stride) {
  HWY_ALIGN float rows[kPanelTokens * kSquare];
  for (int64_t i = 0; i < kPanelTokens; ++i) {
    const int64_t from = token(i);
    float* row = rows + i * kSquare;
    if (from < 0 || count < kSquare) std::fill_n(row, kSquare, 0.0f);
    if (from >= 0) ConvertRow(x + from * width + first, count, row);
  }
  const int64_t rounded = (count + 3) / 4 * 4;
  if (rounded == count) {
    Transpose32(reinterpret_cast<const uint32_t*>(rows), kSquare, reinterpret_cast<uint32_t*>(panel + first * stride),
                stride, kPanelTokens, count);
    return;
  }
  HWY_ALIGN float turned[kSquare * kPanelTokens];
  Transpose32(reinterpret_cast<const uint32_t*>(rows), kSquare, reinterpret_cast<uint32_t*>(turned), kPanelTokens,
              kPanelTokens, rounded);
  for (int64_t f = 0; f < count; ++f)
    std::copy_n(turned + f * kPanelTokens, kPanelTokens, panel + (first + f) * stride);
}

/// Tokens [begin, begin + tokens) of y from a panel [width][64].
template <typename T>
void unpack_panel(const float* panel, int64_t width, int64_t begin, int64_t tokens, T* y) {
  HWY_ALIGN float rows[kPanelTokens * kSquare];
  for (int64_t first = 0; first < width; first += kSquare) {
    const int64_t count = std::min(kSquare, width - first), whole = count / 4 * 4;
    Transpose32(reinterpret_cast<const uint32_t*>(panel + first * kPanelTokens), kPanelTokens,
                reinterpret_cast<uint32_t*>(rows), kSquare, whole, kPanelTokens);
    for (int64_t f = whole; f < count; ++f)
      for (int64_t t = 0; t < tokens; ++t) rows[t * kSquare + f] = panel[(first + f) * kPanelTokens + t];
    for (int64_t t = 0; t < tokens; ++t)
      ConvertRow<float, T>(rows + t * kSquare, count, y + (begin + t) * width + first);
  }
}

// --- sparse x dense ---

/// Where the elements of a block lie: element i of its line, j along the sum.
struct BlockStrides {
  int64_t block, line, sum, along;
};
BlockStrides strides_of(const SparseGrid& grid, bool transpose) {
  if (transpose) return {grid.block_elements(), 1, grid.block_columns, grid.block_rows};
  return {grid.block_elements(), grid.block_columns, 1, grid.block_columns};
}

/// kCount elements of a line for kStep tokens: chains over the blocks [begin, end), stored at out[i * 64].
template <int kCount>
HWY_INLINE void run_line(const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
                         int64_t begin, int64_t end, float* out) {
  const Df d;
  Vf sums[kCount][kVectors];
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kVectors; ++u) sums[i][u] = hn::Zero(d);
  }
  for (int64_t e = begin; e < end; ++e) {
    const float* x = panel + int64_t{lines.other[e]} * kPanelTokens;
    const float* value = values + int64_t{lines.block[e]} * at.block;
    for (int64_t j = 0; j < at.along; ++j, x += kPanelTokens, value += at.sum) {
      Vf tokens[kVectors];
      RAMET_UNROLL
      for (int u = 0; u < kVectors; ++u) tokens[u] = hn::Load(d, x + u * kLanes);
      RAMET_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const Vf factor = hn::Set(d, value[i * at.line]);
        RAMET_UNROLL
        for (int u = 0; u < kVectors; ++u) sums[i][u] = hn::MulAdd(factor, tokens[u], sums[i][u]);
      }
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kVectors; ++u) hn::Store(sums[i][u], d, out + i * kPanelTokens + u * kLanes);
  }
}

void run_some(int64_t count, const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
              int64_t begin, int64_t end, float* out) {
  for (int64_t t = 0; t < kPanelTokens; t += kStep) switch (count) {
      case 1: run_line<1>(lines, at, values, panel + t, begin, end, out + t); break;
      case 2: run_line<2>(lines, at, values, panel + t, begin, end, out + t); break;
      case 3: run_line<3>(lines, at, values, panel + t, begin, end, out + t); break;
      default: run_line<kRows>(lines, at, values, panel + t, begin, end, out + t); break;
    }
}

/// sums[0] = the balanced tree over `parts` rows of sums, each `count` numbers.
void combine_parts(float* sums, int64_t parts, int64_t count) {
  if (parts == 1) return;
  const int64_t half = tree_split(parts);
  combine_parts(sums, half, count);
  combine_parts(sums + half * count, parts - half, count);
  const Df d;
  for (int64_t i = 0; i < count; i += kLanes)
    hn::Store(hn::Add(hn::Load(d, sums + i), hn::Load(d, sums + half * count + i)), d, sums + i);
}

/// One panel of tokens: all lines.
void run_panel(const SparseProduct& call, const float* panel, float* sums, float* out) {
  const SparseGrid& grid = call.form.grid;
  const SparseLines& lines = call.lines;
  const BlockStrides at = strides_of(grid, call.form.transpose);
  const int64_t high = call.form.transpose ? grid.block_columns : grid.block_rows;
  for (int64_t line = 0; line < lines.lines; ++line)
    for (int64_t i = 0; i < high; i += kRows) {
      const int64_t count = std::min<int64_t>(kRows, high - i);
      float* to = out + (line * high + i) * kPanelTokens;
      const int32_t* first = lines.first + line * lines.parts;
      const float* values = call.values + i * at.line;
      if (lines.parts == 1) {
        run_some(count, lines, at, values, panel, first[0], first[1], to);
        continue;
      }
      const int64_t size = count * kPanelTokens;
      for (int64_t part = 0; part < lines.parts; ++part)
        run_some(count, lines, at, values, panel, first[part], first[part + 1], sums + part * size);
      combine_parts(sums, lines.parts, size);
      std::copy_n(sums, size, to);
    }
}

// --- sampled dense x dense ---

constexpr int kPieces = static_cast<int>(kReduceLanes / kLanes);  // vectors of one accumulator
constexpr int kSide = kPieces == 1 ? 4 : kPieces == 2 ? 2 : 1;    // of a tile of accumulators
constexpr int kGroup = kPieces == 1 ? 8 : kPieces == 2 ? 4 : 1;   // accumulators of one row

/// The sum of 16 lanes: lane l += lane l + 8, + 4, + 2, + 1.
template <int kCount>
HWY_INLINE float sum_of_lanes(const Vf (&pieces)[kCount]) {
#if HWY_TARGET == HWY_SCALAR
  float lane[kReduceLanes];
  for (int p = 0; p < kCount; ++p) hn::Store(pieces[p], Df(), lane + p);
  for (int64_t width = kReduceLanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
#else
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
  hn::Vec<decltype(d8)> eight;
  if constexpr (kCount == 1)
    eight = hn::Add(hn::LowerHalf(d8, pieces[0]), hn::UpperHalf(d8, pieces[0]));
  else
    eight = hn::Add(pieces[0], pieces[1]);
  auto four = hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight));
  four = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(four, hn::Shuffle2301(four)));
#endif
}

/// The sums of the lanes of `kCount` accumulators, each in the order of sum_of_lanes, one after another.
template <int kCount>
HWY_INLINE void sums_of_lanes(const Vf (&sums)[kCount][kPieces], float* out) {
#if HWY_TARGET != HWY_SCALAR
  // Vectors of 16 lanes: each level adds the halves of two vectors' lanes, side by side in one vector.
  if constexpr (kPieces == 1 && (kCount == 16 || kCount == 8)) {
    const Df d;
    const hn::Repartition<double, Df> pairs;
    const auto halves = [&](Vf a, Vf b) {
      return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    };
    const auto quarters = [&](Vf a, Vf b) {
      return hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a), hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)));
    };
    const auto eighths = [&](Vf a, Vf b) {
      const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
      return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, x, y)),
                     hn::BitCast(d, hn::InterleaveUpper(pairs, x, y)));
    };
    const auto lanes = [&](Vf a, Vf b) {
      return hn::Add(hn::OddEven(hn::Shuffle2301(b), a), hn::OddEven(b, hn::Shuffle2301(a)));
    };
    constexpr int kHalf = kCount / 2;
    Vf made[kHalf];
    RAMET_UNROLL
    for (int i = 0; i < kHalf; ++i) made[i] = halves(sums[i][0], sums[i + kHalf][0]);
    RAMET_UNROLL
    for (int i = 0; i < kHalf / 2; ++i) made[i] = quarters(made[i], made[i + kHalf / 2]);
    RAMET_UNROLL
    for (int i = 0; i < kHalf / 4; ++i) made[i] = eighths(made[i], made[i + kHalf / 4]);
    if constexpr (kCount == 16) {
      hn::StoreU(lanes(made[0], made[1]), d, out);
    } else {
      // The eight sums are in the even lanes.
      HWY_ALIGN float twice[16];
      hn::Store(lanes(made[0], made[0]), d, twice);
      for (int i = 0; i < kCount; ++i) out[i] = twice[2 * i];
    }
    return;
  }
#endif
  for (int i = 0; i < kCount; ++i) out[i] = sum_of_lanes(sums[i]);
}

/// Sums of products of `kA` rows of a with `kB` rows of b, each at its own place: out [kA][kB].
template <int kA, int kB>
HWY_INLINE void outer_tile(int64_t tokens, const float* const* a, const float* const* b, float* out) {
  const Df d;
  Vf sums[kA * kB][kPieces];
  RAMET_UNROLL
  for (int i = 0; i < kA * kB; ++i) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) sums[i][p] = hn::Zero(d);
  }
  for (int64_t t = 0; t < tokens; t += kReduceLanes) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      Vf right[kB];
      RAMET_UNROLL
      for (int j = 0; j < kB; ++j) right[j] = hn::Load(d, b[j] + t + p * kLanes);
      RAMET_UNROLL
      for (int i = 0; i < kA; ++i) {
        const Vf left = hn::Load(d, a[i] + t + p * kLanes);
        RAMET_UNROLL
        for (int j = 0; j < kB; ++j) sums[i * kB + j][p] = hn::MulAdd(left, right[j], sums[i * kB + j][p]);
      }
    }
  }
  sums_of_lanes(sums, out);
}

HWY_INLINE void put_sum(const SparseOuter& call, int64_t element, float sum) {
  call.out[element] = call.first ? sum : call.out[element] + sum;
}

/// Blocks whose sides are multiples of the tile's.
void outer_blocks(const SparseOuter& call, int64_t top, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  for (int64_t e = begin; e < end; ++e)
    for (int64_t i = 0; i < grid.block_rows; i += kSide)
      for (int64_t j = 0; j < grid.block_columns; j += kSide) {
        const float *a[kSide], *b[kSide];
        for (int s = 0; s < kSide; ++s) {
          a[s] = call.a + (top + i + s) * kOuterTokens;
          b[s] = call.b + (call.lines.other[e] + j + s) * kOuterTokens;
        }
        const int64_t element = call.lines.block[e] * grid.block_elements() + i * grid.block_columns + j;
        float sums[kSide * kSide];
        outer_tile<kSide, kSide>(call.tokens, a, b, sums);
        for (int k = 0; k < kSide; ++k)
          for (int l = 0; l < kSide; ++l) put_sum(call, element + k * grid.block_columns + l, sums[k * kSide + l]);
      }
}

/// Any blocks: the stored elements of one row, a few at a time.
void outer_row(const SparseOuter& call, int64_t top, int64_t i, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  const int64_t wide = grid.block_columns, count = (end - begin) * wide;
  const float* a = call.a + (top + i) * kOuterTokens;
  for (int64_t n = 0; n < count; n += kGroup) {
    const float* b[kGroup];
    int64_t element[kGroup];
    const int64_t group = std::min<int64_t>(kGroup, count - n);
    for (int64_t g = 0; g < kGroup; ++g) {
      const int64_t at = n + std::min(g, group - 1), e = begin + at / wide, j = at % wide;
      b[g] = call.b + (call.lines.other[e] + j) * kOuterTokens;
      element[g] = call.lines.block[e] * grid.block_elements() + i * wide + j;
    }
    float sums[kGroup];
    outer_tile<1, kGroup>(call.tokens, &a, b, sums);
    for (int64_t g = 0; g < group; ++g) put_sum(call, element[g], sums[g]);
  }
}

}  // namespace

/// Panels [begin, end) of a product; `room` has a panel of the inputs, one of the outputs, and the sums of the parts.
void SparsePanels(const SparseProduct& call, int64_t begin, int64_t end, float* room) {
  const int64_t in = call.form.in(), out = call.form.out();
  float *panel = room, *result = panel + in * kPanelTokens, *sums = result + out * kPanelTokens;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * kPanelTokens, tokens = std::min(kPanelTokens, call.form.tokens - first);
    WithStorage(call.in, call.x, [&](auto* x) {
      for (int64_t f = 0; f < in; f += kSquare)
        pack_square(
            x, in, f, std::min(kSquare, in - f), [&](int64_t i) { return i < tokens ? first + i : -1; }, panel,
            kPanelTokens);
    });
    run_panel(call, panel, sums, result);
    WithStorage(call.form.output.dtype, call.y, [&](auto* y) {
      using T = std::remove_cvref_t<decltype(*y)>;
      unpack_panel(result, out, first, tokens, const_cast<T*>(y));
    });
  }
}

/// Features [begin, end) (multiples of 64 but for the last) of tokens [first, first + tokens) as rows of kOuterTokens.
void SparsePack(DType dtype, const void* source, int64_t width, int64_t first, int64_t tokens, int64_t begin,
                int64_t end, float* to) {
  const bool pairs = dtype != DType::kF32;
  for (int64_t block = 0; block * kPanelTokens < tokens; ++block)
    for (int64_t f = begin; f < end; f += kSquare)
      WithStorage(dtype, source, [&](auto* x) {
        pack_square(
            x, width, f, std::min(kSquare, end - f),
            [&](int64_t i) {
              // Of narrow types, 16 lanes take the second tokens of 16 pairs, then the first ones.
              const int64_t place = pairs ? i / 32 * 32 + 2 * (i % 16) + (i % 32 < 16 ? 1 : 0) : i;
              const int64_t token = block * kPanelTokens + place;
              return token < tokens ? first + token : -1;
            },
            to + block * kPanelTokens, kOuterTokens);
      });
}

/// Lines [begin, end) of one part of a sparse_outer.
void SparseOuterLines(const SparseOuter& call, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  const bool tiles = grid.block_rows % kSide == 0 && grid.block_columns % kSide == 0 && kSide > 1;
  for (int64_t line = begin; line < end; ++line) {
    const int32_t* first = call.lines.first + line * call.lines.parts;
    const int64_t last = first[call.lines.parts], top = line * grid.block_rows;
    if (tiles)
      outer_blocks(call, top, first[0], last);
    else
      for (int64_t i = 0; i < grid.block_rows; ++i) outer_row(call, top, i, first[0], last);
  }
}

void SparseWiden(DType dtype, const void* values, int64_t begin, int64_t end, float* to) {
  WithStorage(dtype, values, [&](auto* from) { ConvertRow(from + begin, end - begin, to + begin); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SparsePanels);
HWY_EXPORT(SparsePack);
HWY_EXPORT(SparseOuterLines);
HWY_EXPORT(SparseWiden);

namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseOuter;
using cpu::SparseProduct;

int64_t line_count(const SparseGrid& grid, bool transpose) {
  return transpose ? grid.cells_across * grid.blocks_across() : grid.cells_down * grid.blocks_down();
}

/// Numbers that make_lines needs.
int64_t lines_room(const SparseGrid& grid, bool transpose) {
  const int64_t parts = transpose ? grid.cells_down : grid.cells_across;
  return line_count(grid, transpose) * parts + 1 + 2 * grid.cells() * grid.slots;
}

/// Sorts the stored blocks by line and part. `room` takes lines_room numbers.
SparseLines make_lines(const SparseGrid& grid, bool transpose, const int32_t* index, int32_t* room) {
  SparseLines lines;
  lines.parts = transpose ? grid.cells_down : grid.cells_across;
  lines.lines = line_count(grid, transpose);
  const int64_t keys = lines.lines * lines.parts, entries = grid.cells() * grid.slots;
  int32_t *first = room, *other = first + keys + 1, *block = other + entries;
  std::fill_n(first, keys + 1, 0);
  // Calls visit(key, along, number of the block) for the blocks in their order: `along` is the block's place in the
  // sum.
  const auto walk = [&](const auto& visit) {
    int64_t number = 0;
    for (int64_t r = 0; r < grid.cells_down; ++r)
      for (int64_t c = 0; c < grid.cells_across; ++c) {
        int64_t row = 0, row_end = grid.blocks_across();
        for (int64_t slot = 0; slot < grid.slots; ++slot, ++number) {
          for (; index[number] >= row_end; ++row) row_end += grid.blocks_across();
          const int64_t column = index[number] - (row_end - grid.blocks_across());
          if (transpose)
            visit((c * grid.blocks_across() + column) * lines.parts + r, r * grid.cell_rows + row * grid.block_rows,
                  number);
          else
            visit((r * grid.blocks_down() + row) * lines.parts + c, c * grid.cell_columns + column * grid.block_columns,
                  number);
        }
      }
  };
  walk([&](int64_t key, int64_t, int64_t) { ++first[key]; });
  std::exclusive_scan(first, first + keys + 1, first, 0);
  walk([&](int64_t key, int64_t along, int64_t number) {
    other[first[key]] = static_cast<int32_t>(along);
    block[first[key]++] = static_cast<int32_t>(number);
  });
  // Each start has moved to its end: the next key's start.
  std::copy_backward(first, first + keys, first + keys + 1);
  first[0] = 0;
  lines.first = first, lines.other = other, lines.block = block;
  return lines;
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Scratch of a kernel, dealt out in pieces that begin at multiples of 64 bytes.
class Room {
 public:
  explicit Room(void* scratch) : at_(static_cast<char*>(scratch)) {}
  template <typename T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += rounded(count * static_cast<int64_t>(sizeof(T)));
    return piece;
  }

 private:
  char* at_;
};

int64_t panel_room(const ops::SparseMatmulForm& form) {
  const int64_t parts = form.transpose ? form.grid.cells_down : form.grid.cells_across;
  return (form.in() + form.out() + 4 * parts) * kPanelTokens;
}

int64_t matmul_scratch(const NodeSignature& node, int threads) {
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(node);
  const bool widen = node.inputs[1].dtype != DType::kF32;
  return rounded(lines_room(form.grid, form.transpose) * 4) + rounded(widen ? form.grid.stored_elements() * 4 : 0) +
         threads * rounded(panel_room(form) * 4);
}

void run_matmul(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context) {
  const auto* index = static_cast<const int32_t*>(context.inputs[2]);
  ops::check_sparse_index(node, form.grid, index);
  Room room(context.scratch);
  SparseProduct call{.form = form, .in = node.inputs[0].dtype, .x = context.inputs[0], .y = context.outputs[0]};
  call.lines = make_lines(form.grid, form.transpose, index, room.take<int32_t>(lines_room(form.grid, form.transpose)));
  call.values = static_cast<const float*>(context.inputs[1]);
  if (const DType dtype = node.inputs[1].dtype; dtype != DType::kF32) {
    float* values = room.take<float>(form.grid.stored_elements());
    context.team.split(form.grid.stored_elements(), 4096, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(SparseWiden)(dtype, context.inputs[1], begin, end, values);
    });
    call.values = values;
  }
  const int64_t size = rounded(panel_room(form) * 4) / 4;
  float* panels = room.take<float>(size * context.team.size());
  context.team.split((form.tokens + kPanelTokens - 1) / kPanelTokens, 1, [&](int64_t begin, int64_t end, int rank) {
    HWY_DYNAMIC_DISPATCH(SparsePanels)(call, begin, end, panels + rank * size);
  });
}

int64_t outer_scratch(const NodeSignature& node, int) {
  const SparseGrid grid = ops::sparse_outer_form(node).grid;
  return rounded(lines_room(grid, false) * 4) + (grid.rows() + grid.columns()) * kOuterTokens * 4;
}

void run_outer(const NodeSignature& node, const ops::SparseOuterForm& form, const KernelContext& context) {
  const SparseGrid& grid = form.grid;
  const auto* index = static_cast<const int32_t*>(context.inputs[2]);
  ops::check_sparse_index(node, grid, index);
  Room room(context.scratch);
  SparseOuter call{.grid = grid, .out = static_cast<float*>(context.outputs[0])};
  call.lines = make_lines(grid, false, index, room.take<int32_t>(lines_room(grid, false)));
  float* a = room.take<float>(grid.rows() * kOuterTokens);
  float* b = room.take<float>(grid.columns() * kOuterTokens);
  call.a = a, call.b = b;
  if (form.tokens == 0) std::fill_n(call.out, grid.stored_elements(), 0.0f);
  for (int64_t first = 0; first < form.tokens; first += kOuterTokens) {
    const int64_t tokens = std::min(kOuterTokens, form.tokens - first);
    call.tokens = (tokens + 31) / 32 * 32;
    call.first = first == 0;
    const auto pack = [&](int input, int64_t width, float* to) {
      context.team.split(width, kPanelTokens, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(SparsePack)(node.inputs[static_cast<size_t>(input)].dtype,
                                         context.inputs[static_cast<size_t>(input)], width, first, tokens, begin, end,
                                         to);
      });
    };
    pack(0, grid.rows(), a);
    pack(1, grid.columns(), b);
    context.team.split(call.lines.lines, 1, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(SparseOuterLines)(call, begin, end);
    });
  }
}

std::string refuse_types(const NodeSignature& node) {
  for (const TensorType* type : {&node.inputs[0], &node.inputs[1], &node.outputs[0]})
    if (!cpu::has_vector_loads(type->dtype)) return "not for " + type->text();
  return "";
}

}  // namespace

void add_cpu_sparse(Backend& backend) {
  cpu::add_hwy(
      backend, "sparse_matmul", refuse_types,
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = ops::sparse_matmul_form(node)](const KernelContext& context) {
          run_matmul(node, form, context);
        };
      },
      matmul_scratch);
  cpu::add_hwy(
      backend, "sparse_outer", refuse_types,
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = ops::sparse_outer_form(node)](const KernelContext& context) {
          run_outer(node, form, context);
        };
      },
      outer_scratch);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
