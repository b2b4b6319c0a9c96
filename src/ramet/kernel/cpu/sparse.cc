// Products with block-sparse matrices. Tokens lie along vectors: a panel holds 64 tokens of every feature, so one
// layout serves all block sizes and both directions, and a stored zero or the size of a block changes no bit.

#include "ramet/kernel/cpu/sparse.h"

#include <algorithm>
#include <optional>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/sparse_lines.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/sparse.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/sparse_panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseOuter;
using cpu::SparseProduct;

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Df()));
constexpr int kVectors = kLanes >= 16 ? 4 : 2;  // of tokens that up to four rows of a block meet in one pass
constexpr int kFolds = kLanes >= 16 ? 2 : 1;    // eight rows meet a half of them, where there are registers for eight
constexpr int kRows = 4 * kFolds;               // of a block that one pass computes

// --- sparse x dense ---

/// Where the elements of a block lie: element i of its line, j along the sum.
struct BlockStrides {
  int64_t block, line, sum, along;
};
BlockStrides strides_of(const SparseGrid& grid, bool transpose) {
  if (transpose) return {grid.block_elements(), 1, grid.block_columns, grid.block_rows};
  return {grid.block_elements(), grid.block_columns, 1, grid.block_columns};
}

/// kCount elements of a line for kWide vectors of tokens: chains over the blocks [begin, end), stored at out[i * 64].
template <int kCount, int kWide>
HWY_INLINE void run_line(const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
                         int64_t begin, int64_t end, float* out) {
  const Df d;
  Vf sums[kCount][kWide];
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) sums[i][u] = hn::Zero(d);
  }
  for (int64_t e = begin; e < end; ++e) {
    const float* x = panel + int64_t{lines.other[e]} * kPanelTokens;
    const float* value = values + int64_t{lines.block[e]} * at.block;
    // The panel is in the second-level cache, and the stored blocks lie anywhere in it.
    const float* later = panel + int64_t{lines.other[e + cpu::kAhead]} * kPanelTokens;
    for (int64_t j = 0; j < at.along; ++j, x += kPanelTokens, later += kPanelTokens, value += at.sum) {
      Vf tokens[kWide];
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) {
        tokens[u] = hn::Load(d, x + u * kLanes);
        hwy::Prefetch(later + u * kLanes);
      }
      RAMET_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const Vf factor = hn::Set(d, value[i * at.line]);
        RAMET_UNROLL
        for (int u = 0; u < kWide; ++u) sums[i][u] = hn::MulAdd(factor, tokens[u], sums[i][u]);
      }
    }
  }
  RAMET_UNROLL
  for (int i = 0; i < kCount; ++i) {
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) hn::Store(sums[i][u], d, out + i * kPanelTokens + u * kLanes);
  }
}

template <int kCount, int kWide>
void run_tokens(const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
                int64_t begin, int64_t end, float* out) {
  for (int64_t t = 0; t < kPanelTokens; t += kWide * kLanes)
    run_line<kCount, kWide>(lines, at, values, panel + t, begin, end, out + t);
}

/// The same of blocks of one element: kWide vectors of tokens. The processor itself looks far enough ahead.
template <int kWide>
void run_singles(const SparseLines& lines, const float* panel, int64_t begin, int64_t end, float* out) {
  const Df d;
  for (int64_t t = 0; t < kPanelTokens; t += kWide * kLanes) {
    Vf sums[kWide];
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) sums[u] = hn::Zero(d);
    for (const cpu::SparseSingle *e = lines.singles + begin, *last = lines.singles + end; e != last; ++e) {
      const float* x = panel + e->at + t;
      const Vf factor = hn::Set(d, e->value);
      RAMET_UNROLL
      for (int u = 0; u < kWide; ++u) sums[u] = hn::MulAdd(factor, hn::Load(d, x + u * kLanes), sums[u]);
    }
    RAMET_UNROLL
    for (int u = 0; u < kWide; ++u) hn::Store(sums[u], d, out + t + u * kLanes);
  }
}

/// Up to kRows elements of a line: more elements meet fewer tokens at once.
void run_some(int64_t count, const SparseLines& lines, const BlockStrides& at, const float* values, const float* panel,
              int64_t begin, int64_t end, float* out) {
  if (lines.singles) return run_singles<kVectors>(lines, panel, begin, end, out);
  switch (count) {
    case 1: return run_tokens<1, kVectors>(lines, at, values, panel, begin, end, out);
    case 2: return run_tokens<2, kVectors>(lines, at, values, panel, begin, end, out);
    case 3: return run_tokens<3, kVectors>(lines, at, values, panel, begin, end, out);
    case kRows: return run_tokens<kRows, kVectors / kFolds>(lines, at, values, panel, begin, end, out);
    default: return run_tokens<4, kVectors>(lines, at, values, panel, begin, end, out);
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

/// Lines [begin, end) of one panel of tokens, to the rows of `out`.
void run_lines(const SparseProduct& call, const float* panel, int64_t begin, int64_t end, float* sums, float* out) {
  const SparseGrid& grid = call.form.grid;
  const SparseLines& lines = call.lines;
  const BlockStrides at = strides_of(grid, call.form.transpose);
  const int64_t high = lines.high;
  for (int64_t line = begin; line < end; ++line)
    for (int64_t i = 0, count; i < high; i += count) {
      count = high - i >= kRows ? kRows : std::min<int64_t>(4, high - i);
      float* to = out + ((line - begin) * high + i) * kPanelTokens;
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
#if HWY_MAX_BYTES < 32
  HWY_ALIGN float lane[kReduceLanes];
  for (int p = 0; p < kCount; ++p) hn::Store(pieces[p], Df(), lane + p * kLanes);
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

/// Sums of products of `kA` rows of a with `kB` rows of b, each at its own place: out [kA][kB]. The rows `next` of b
/// are read afterwards.
template <int kA, int kB>
HWY_INLINE void outer_tile(int64_t tokens, const float* const* a, const float* const* b, const float* const* next,
                           float* out) {
  const Df d;
  Vf sums[kA * kB][kPieces];
  RAMET_UNROLL
  for (int i = 0; i < kA * kB; ++i) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) sums[i][p] = hn::Zero(d);
  }
  for (int64_t t = 0; t < tokens; t += kReduceLanes) {
    RAMET_UNROLL
    for (int j = 0; j < kB; ++j) hwy::Prefetch(next[j] + t);
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
  const int64_t across = grid.block_columns / kSide, tiles = grid.block_rows / kSide * across;
  const int64_t count = (end - begin) * tiles;
  const auto place = [&](int64_t n, const float** rows) {
    const int64_t column = call.lines.other[begin + n / tiles] + n % across * kSide;
    for (int s = 0; s < kSide; ++s) rows[s] = call.b + (column + s) * kOuterTokens;
  };
  const float *a[kSide], *b[kSide], *next[kSide];
  if (count > 0) place(0, next);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = n % tiles / across * kSide, j = n % across * kSide;
    for (int s = 0; s < kSide; ++s) a[s] = call.a + (top + i + s) * kOuterTokens;
    std::copy_n(next, kSide, b);
    place(std::min(n + 1, count - 1), next);
    float sums[kSide * kSide];
    outer_tile<kSide, kSide>(call.tokens, a, b, next, sums);
    const int64_t block = call.lines.block[begin + n / tiles];
    const int64_t element = block * grid.block_elements() + i * grid.block_columns + j;
    for (int k = 0; k < kSide; ++k)
      for (int l = 0; l < kSide; ++l) put_sum(call, element + k * grid.block_columns + l, sums[k * kSide + l]);
  }
}

/// Any blocks: the stored elements of one row, a few at a time.
void outer_row(const SparseOuter& call, int64_t top, int64_t i, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  const int64_t wide = grid.block_columns, count = (end - begin) * wide;
  const float* a = call.a + (top + i) * kOuterTokens;
  const auto place = [&](int64_t n, const float** rows) {
    for (int64_t g = 0; g < kGroup; ++g) {
      const int64_t at = std::min(n + g, count - 1);
      rows[g] = call.b + (call.lines.other[begin + at / wide] + at % wide) * kOuterTokens;
    }
  };
  const float *b[kGroup], *next[kGroup];
  if (count > 0) place(0, next);
  for (int64_t n = 0; n < count; n += kGroup) {
    std::copy_n(next, kGroup, b);
    place(n + kGroup, next);
    float sums[kGroup];
    outer_tile<1, kGroup>(call.tokens, &a, b, next, sums);
    for (int64_t g = 0; g < std::min<int64_t>(kGroup, count - n); ++g) {
      const int64_t block = call.lines.block[begin + (n + g) / wide];
      put_sum(call, block * grid.block_elements() + i * wide + (n + g) % wide, sums[g]);
    }
  }
}

}  // namespace

/// Panels [begin, end) of a product; `room` has a panel of the inputs, some lines of the outputs, and the sums of the
/// parts.
void SparsePanels(const SparseProduct& call, int64_t begin, int64_t end, float* room) {
  const int64_t in = call.form.in(), out = call.form.out(), group = cpu::line_group(call.lines.high);
  float *panel = room, *result = panel + in * kPanelTokens, *sums = result + group * call.lines.high * kPanelTokens;
  for (int64_t p = begin; p < end; ++p) {
    const int64_t first = p * kPanelTokens, tokens = std::min(kPanelTokens, call.form.tokens - first);
    WithStorage(call.in, call.x, [&](auto* x) {
      pack_square(x, in, 0, in, [&](int64_t i) { return i < tokens ? first + i : -1; }, panel, kPanelTokens);
    });
    for (int64_t line = 0; line < call.lines.lines; line += group) {
      const int64_t last = std::min(call.lines.lines, line + group);
      WithStorage(call.form.output.dtype, call.y, [&](auto* y) {
        using T = std::remove_cvref_t<decltype(*y)>;
        T* to = const_cast<T*>(y) + first * out + line * call.lines.high;
        run_lines(call, panel, line, last, sums, result);
        unpack_panel(result, (last - line) * call.lines.high, tokens, to, out);
      });
    }
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

/// Lines [begin, end) of one part of a sparse_outer, a band of columns after another: the rows of b that a band needs
/// stay in the second-level cache. `next` has room for a number a line.
void SparseOuterLines(const SparseOuter& call, int64_t begin, int64_t end, int32_t* next) {
  const SparseGrid& grid = call.grid;
  const SparseLines& lines = call.lines;
  const bool tiles = grid.block_rows % kSide == 0 && grid.block_columns % kSide == 0 && kSide > 1;
  for (int64_t line = begin; line < end; ++line) next[line] = lines.first[line * lines.parts];
  for (int64_t band = 0; band < grid.columns(); band += cpu::kOuterBand)
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = next[line], all = lines.first[(line + 1) * lines.parts], top = line * grid.block_rows;
      int64_t last = first;
      while (last < all && lines.other[last] < band + cpu::kOuterBand) ++last;
      next[line] = static_cast<int32_t>(last);
      if (tiles)
        outer_blocks(call, top, first, last);
      else
        for (int64_t i = 0; i < grid.block_rows; ++i) outer_row(call, top, i, first, last);
    }
}

/// Entries [begin, end) of blocks of one element.
void SparseGather(DType dtype, const void* values, const SparseLines& lines, int64_t begin, int64_t end,
                  cpu::SparseSingle* to) {
  WithStorage(dtype, values, [&](auto* from) {
    const hn::CappedTag<float, 1> d;
    for (int64_t e = begin; e < end; ++e)
      to[e] = {lines.other[e] * static_cast<int32_t>(kPanelTokens), hn::GetLane(LoadF32(d, from + lines.block[e]))};
  });
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
HWY_EXPORT(SparseGather);
HWY_EXPORT(SparseWiden);

namespace {

using cpu::kPanelTokens;
using cpu::SparseLines;
using cpu::SparseOuter;
using cpu::SparseProduct;

int64_t panel_room(const ops::SparseMatmulForm& form) {
  const int64_t parts = form.transpose ? form.grid.cells_down : form.grid.cells_across;
  const int64_t high = form.transpose ? form.grid.block_columns : form.grid.block_rows;
  return cpu::scratch_bytes((form.in() + cpu::line_group(high) * high + 8 * parts) * kPanelTokens * 4);
}

/// Bytes of the values of all products as they are read, where the node's own will not do.
int64_t values_room(const NodeSignature& node, const ops::SparseMatmulForm& form) {
  const int64_t elements = form.groups.count * form.grid.stored_elements();
  if (form.grid.block_elements() == 1)
    return cpu::scratch_bytes(elements * static_cast<int64_t>(sizeof(cpu::SparseSingle)));
  return node.inputs[1].dtype == DType::kF32 ? 0 : cpu::scratch_bytes(elements * 4);
}

int64_t matmul_scratch(const NodeSignature& node, int threads) {
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(node);
  return cpu::lines_scratch(form.grid, form.transpose, form.groups, threads) + values_room(node, form) +
         threads * panel_room(form);
}

/// Splits [0, groups * count) over the team and calls body(group, begin, end, rank) for the parts of each group.
template <typename Body>
void split_groups(ThreadTeam& team, int64_t groups, int64_t count, int64_t grain, const Body& body) {
  team.split(groups * count, grain, [&](int64_t begin, int64_t end, int rank) {
    for (int64_t at = begin; at < end;) {
      const int64_t group = at / count, last = std::min(end, (group + 1) * count);
      body(group, at - group * count, last - group * count, rank);
      at = last;
    }
  });
}

/// The stored elements of one product in the order of its lines, with their values.
SparseLines sort_singles(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context,
                         cpu::Room& room) {
  const int64_t slices = context.team.size();
  auto* singles = room.take<cpu::SparseSingle>(form.grid.stored_elements());
  auto* numbers = room.take<int32_t>(cpu::LineSort::room_numbers(form.grid, form.transpose, slices));
  const auto* index = static_cast<const int32_t*>(context.inputs[2]);
  cpu::LineSort sort(form.grid, form.transpose, index, slices, numbers);
  context.team.run([&](int rank) { sort.count(rank); });
  if (!sort.is_valid()) ops::check_sparse_index(node, form.grid, index);
  SparseLines lines = sort.place();
  const auto fill = [&](const auto& value_of) {
    context.team.run([&](int rank) {
      sort.fill(rank, [&](int32_t at, int64_t along, int64_t number) {
        singles[at] = {static_cast<int32_t>(along * kPanelTokens), value_of(number)};
      });
    });
  };
  const void* values = context.inputs[1];
  switch (node.inputs[1].dtype) {
    case DType::kF32: fill([v = static_cast<const float*>(values)](int64_t i) { return v[i]; }); break;
    case DType::kBF16: fill([v = static_cast<const uint16_t*>(values)](int64_t i) { return bf16_to_f32(v[i]); }); break;
    default: fill([v = static_cast<const uint16_t*>(values)](int64_t i) { return f16_to_f32(v[i]); }); break;
  }
  lines.singles = singles;
  return lines;
}

/// The lines of each product, and their values in f32.
struct MatmulOperands {
  std::optional<cpu::SparsePatterns> patterns{};
  SparseLines one{};  ///< where there are no patterns
  const float* values = nullptr;
  cpu::SparseSingle* singles = nullptr;

  SparseLines of(int64_t group, int64_t stored) const {
    if (!patterns) return one;
    SparseLines lines = patterns->of(group);
    if (singles) lines.singles = singles + group * stored;
    return lines;
  }
};

MatmulOperands matmul_operands(const NodeSignature& node, const ops::SparseMatmulForm& form,
                               const KernelContext& context, cpu::Room& room) {
  const int64_t stored = form.grid.stored_elements(), groups = form.groups.count;
  const bool single = form.grid.block_elements() == 1;
  MatmulOperands made{.values = static_cast<const float*>(context.inputs[1])};
  if (single && groups == 1) {
    made.one = sort_singles(node, form, context, room);
    return made;
  }
  made.patterns.emplace(node, 2, form.grid, form.transpose, form.groups, context, room);
  const DType dtype = node.inputs[1].dtype;
  if (single) {
    made.singles = room.take<cpu::SparseSingle>(groups * stored);
    split_groups(context.team, groups, stored, 4096, [&](int64_t group, int64_t begin, int64_t end, int) {
      const char* from = static_cast<const char*>(context.inputs[1]) + group * stored * size_of(dtype);
      HWY_DYNAMIC_DISPATCH(SparseGather)
      (dtype, from, made.patterns->of(group), begin, end, made.singles + group * stored);
    });
  } else if (dtype != DType::kF32) {
    float* wide = room.take<float>(groups * stored);
    context.team.split(groups * stored, 4096, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(SparseWiden)(dtype, context.inputs[1], begin, end, wide);
    });
    made.values = wide;
  }
  return made;
}

void run_matmul(const NodeSignature& node, const ops::SparseMatmulForm& form, const KernelContext& context) {
  cpu::Room room(context.scratch);
  const MatmulOperands operands = matmul_operands(node, form, context, room);
  const int64_t stored = form.grid.stored_elements(), groups = form.groups.count;
  const int64_t size = panel_room(form) / 4;
  float* panels = room.take<float>(size * context.team.size());
  const int64_t count = (form.tokens + kPanelTokens - 1) / kPanelTokens;
  const auto x_bytes = static_cast<int64_t>(size_of(node.inputs[0].dtype)) * form.tokens * form.in();
  const auto y_bytes = static_cast<int64_t>(size_of(form.output.dtype)) * form.tokens * form.out();
  split_groups(context.team, groups, count, 1, [&](int64_t group, int64_t begin, int64_t end, int rank) {
    const SparseProduct call{.form = form,
                             .lines = operands.of(group, stored),
                             .in = node.inputs[0].dtype,
                             .x = static_cast<const char*>(context.inputs[0]) + group * x_bytes,
                             .values = operands.values + group * stored,
                             .y = static_cast<char*>(context.outputs[0]) + group * y_bytes};
    HWY_DYNAMIC_DISPATCH(SparsePanels)(call, begin, end, panels + rank * size);
  });
}

int64_t outer_scratch(const NodeSignature& node, int threads) {
  const ops::SparseOuterForm form = ops::sparse_outer_form(node);
  const SparseGrid& grid = form.grid;
  return cpu::lines_scratch(grid, false, form.groups, threads) + cpu::scratch_bytes(cpu::line_count(grid, false) * 4) +
         (grid.rows() + grid.columns()) * kOuterTokens * 4;
}

/// One product: its operands, and room for as many lines and packed rows as outer_scratch counts.
struct OuterRoom {
  int32_t* next;
  float *a, *b;
};
void run_outer(const ops::SparseOuterForm& form, DType dtype, const void* left, const void* right, SparseOuter call,
               const OuterRoom& room, ThreadTeam& team) {
  const SparseGrid& grid = form.grid;
  call.a = room.a, call.b = room.b;
  if (form.tokens == 0) std::fill_n(call.out, grid.stored_elements(), 0.0f);
  for (int64_t first = 0; first < form.tokens; first += kOuterTokens) {
    const int64_t tokens = std::min(kOuterTokens, form.tokens - first);
    call.tokens = (tokens + 31) / 32 * 32;
    call.first = first == 0;
    const auto pack = [&](const void* source, int64_t width, float* to) {
      team.split(width, kPanelTokens, [&](int64_t begin, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(SparsePack)(dtype, source, width, first, tokens, begin, end, to);
      });
    };
    pack(left, grid.rows(), room.a);
    pack(right, grid.columns(), room.b);
    team.split(call.lines.lines, 1, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(SparseOuterLines)(call, begin, end, room.next);
    });
  }
}

void run_outers(const NodeSignature& node, const ops::SparseOuterForm& form, const KernelContext& context) {
  const SparseGrid& grid = form.grid;
  cpu::Room room(context.scratch);
  const cpu::SparsePatterns patterns(node, 2, grid, false, form.groups, context, room);
  OuterRoom own{};
  own.next = room.take<int32_t>(cpu::line_count(grid, false));
  own.a = room.take<float>(grid.rows() * kOuterTokens);
  own.b = room.take<float>(grid.columns() * kOuterTokens);
  const DType dtype = node.inputs[0].dtype;
  const auto bytes = static_cast<int64_t>(size_of(dtype)) * form.tokens;
  for (int64_t group = 0; group < form.groups.count; ++group) {
    float* out = static_cast<float*>(context.outputs[0]) + group * grid.stored_elements();
    run_outer(form, dtype, static_cast<const char*>(context.inputs[0]) + group * bytes * grid.rows(),
              static_cast<const char*>(context.inputs[1]) + group * bytes * grid.columns(),
              {.grid = grid, .lines = patterns.of(group), .out = out}, own, context.team);
    patterns.clear_unused(group, grid.block_elements() * 4, out);
  }
}

}  // namespace

cpu::OuterPatch::OuterPatch(DType dtype, int64_t rows, int64_t columns)
    : dtype_(dtype), rows_(rows), columns_(columns), side_(rows % 4 == 0 && columns % 4 == 0 ? 4 : 1) {}

int64_t cpu::OuterPatch::scratch_bytes() const {
  const int64_t lines = rows_ / side_, blocks = lines * (columns_ / side_);
  return cpu::scratch_bytes((lines + 1) * 4) + cpu::scratch_bytes((blocks + kAhead) * 4) +
         cpu::scratch_bytes(blocks * 4) + cpu::scratch_bytes(lines * 4) + cpu::scratch_bytes(rows_ * kOuterTokens * 4) +
         cpu::scratch_bytes(columns_ * kOuterTokens * 4) + cpu::scratch_bytes(rows_ * columns_ * 4);
}

const float* cpu::OuterPatch::run(const void* a, int64_t a_width, const void* b, int64_t b_width, int64_t tokens,
                                  void* scratch, ThreadTeam& team) const {
  const int64_t down = rows_ / side_, across = columns_ / side_, blocks = down * across;
  Room room(scratch);
  auto* first = room.take<int32_t>(down + 1);
  auto* other = room.take<int32_t>(blocks + kAhead);
  auto* block = room.take<int32_t>(blocks);
  for (int64_t line = 0; line <= down; ++line) first[line] = static_cast<int32_t>(line * across);
  for (int64_t e = 0; e < blocks + kAhead; ++e) other[e] = e < blocks ? static_cast<int32_t>(e % across * side_) : 0;
  for (int64_t e = 0; e < blocks; ++e) block[e] = static_cast<int32_t>(e);
  auto* next = room.take<int32_t>(down);
  SparseOuter call{.grid = {1, 1, rows_, columns_, side_, side_, blocks},
                   .lines = {.lines = down, .parts = 1, .high = side_, .first = first, .other = other, .block = block}};
  float *left = room.take<float>(rows_ * kOuterTokens), *right = room.take<float>(columns_ * kOuterTokens);
  call.a = left, call.b = right, call.out = room.take<float>(rows_ * columns_);
  if (tokens == 0) std::fill_n(call.out, rows_ * columns_, 0.0f);
  for (int64_t begin = 0; begin < tokens; begin += kOuterTokens) {
    const int64_t count = std::min(kOuterTokens, tokens - begin);
    call.tokens = (count + 31) / 32 * 32;
    call.first = begin == 0;
    const auto pack = [&](const void* source, int64_t width, int64_t features, float* to) {
      team.split(features, kPanelTokens, [&](int64_t from, int64_t end, int) {
        HWY_DYNAMIC_DISPATCH(SparsePack)(dtype_, source, width, begin, count, from, end, to);
      });
    };
    pack(a, a_width, rows_, left);
    pack(b, b_width, columns_, right);
    team.split(down, 1,
               [&](int64_t from, int64_t end, int) { HWY_DYNAMIC_DISPATCH(SparseOuterLines)(call, from, end, next); });
  }
  return call.out;
}

namespace {

std::string refuse_types(const NodeSignature& node) {
  for (const TensorType* type : {&node.inputs[0], &node.inputs[1], &node.outputs[0]})
    if (!cpu::has_vector_loads(type->dtype)) return "not for " + type->text();
  return "";
}

}  // namespace

void add_cpu_sparse(Backend& backend) {
  cpu::add_sparse_evolve(backend);
  cpu::add_sparse_candidates(backend);
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
          run_outers(node, form, context);
        };
      },
      outer_scratch);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
