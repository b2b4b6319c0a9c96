// Sampled products of dense matrices: the stored blocks of the gradient of a sparse matrix, in the order of
// ops/sparse.h. Features are rows of packed tokens, so that a lane is a chain over tokens.

#include <algorithm>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/sparse.h"
#include "ramet/kernel/cpu/sparse_lines.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/sparse_outer.cc"
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

constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Df()));

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
      for (int j = 0; j < kB; ++j) right[j] = hn::LoadU(d, b[j] + t + p * kLanes);
      RAMET_UNROLL
      for (int i = 0; i < kA; ++i) {
        const Vf left = hn::LoadU(d, a[i] + t + p * kLanes);
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

/// The sums of tiles and groups in f32, over packed rows.
struct WideTiles {
  using Row = const float*;
  static constexpr int kWide = kGroup;
  static Row left(const SparseOuter& call) { return call.a; }
  static Row right(const SparseOuter& call) { return call.b; }
  static void tile(const SparseOuter& call, bool, const Row* a, const Row* b, const Row* next, float* out) {
    outer_tile<kSide, kSide>(call.tokens, a, b, next, out);
  }
  static void group(const SparseOuter& call, bool, const Row* a, const Row* b, const Row* next, float* out) {
    outer_tile<1, kGroup>(call.tokens, a, b, next, out);
  }
};
/// The same of bf16 by pairs.
struct PairTiles {
  using Row = const uint16_t*;
  static constexpr int kWide = static_cast<int>(cpu::kBf16Group);
  static Row left(const SparseOuter& call) { return call.a_pairs; }
  static Row right(const SparseOuter& call) { return call.b_pairs; }
  static void tile(const SparseOuter& call, bool instruction, const Row* a, const Row* b, const Row* next, float* out) {
    cpu::run_bf16_tile({call.tokens, a, b, next, instruction}, out);
  }
  static void group(const SparseOuter& call, bool instruction, const Row* a, const Row* b, const Row* next,
                    float* out) {
    cpu::run_bf16_group({call.tokens, a, b, next, instruction}, out);
  }
};

/// Blocks whose sides are multiples of the tile's.
template <typename Tiles>
void outer_blocks(const SparseOuter& call, bool instruction, int64_t top, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  const int64_t across = grid.block_columns / kSide, tiles = grid.block_rows / kSide * across;
  const int64_t count = (end - begin) * tiles;
  using Row = typename Tiles::Row;
  const auto place = [&](int64_t n, Row* rows) {
    const int64_t column = call.lines.other[begin + n / tiles] + n % across * kSide;
    for (int s = 0; s < kSide; ++s) rows[s] = Tiles::right(call) + (column + s) * kOuterTokens;
  };
  Row a[kSide], b[kSide], next[kSide];
  if (count > 0) place(0, next);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = n % tiles / across * kSide, j = n % across * kSide;
    for (int s = 0; s < kSide; ++s) a[s] = Tiles::left(call) + (top + i + s) * kOuterTokens;
    std::copy_n(next, kSide, b);
    place(std::min(n + 1, count - 1), next);
    float sums[kSide * kSide];
    Tiles::tile(call, instruction, a, b, next, sums);
    const int64_t block = call.lines.block[begin + n / tiles];
    const int64_t element = block * grid.block_elements() + i * grid.block_columns + j;
    for (int k = 0; k < kSide; ++k)
      for (int l = 0; l < kSide; ++l) put_sum(call, element + k * grid.block_columns + l, sums[k * kSide + l]);
  }
}

/// Any blocks: the stored elements of one row, a few at a time.
template <typename Tiles>
void outer_row(const SparseOuter& call, bool instruction, int64_t row, int64_t i, int64_t begin, int64_t end) {
  using Row = typename Tiles::Row;
  constexpr int64_t kWide = Tiles::kWide;
  const SparseGrid& grid = call.grid;
  const int64_t wide = grid.block_columns, count = (end - begin) * wide;
  const Row a = Tiles::left(call) + row * kOuterTokens;
  const auto place = [&](int64_t n, Row* rows) {
    for (int64_t g = 0; g < kWide; ++g) {
      const int64_t at = std::min(n + g, count - 1);
      rows[g] = Tiles::right(call) + (call.lines.other[begin + at / wide] + at % wide) * kOuterTokens;
    }
  };
  Row b[kWide], next[kWide];
  if (count > 0) place(0, next);
  for (int64_t n = 0; n < count; n += kWide) {
    std::copy_n(next, kWide, b);
    place(n + kWide, next);
    float sums[kWide];
    Tiles::group(call, instruction, &a, b, next, sums);
    for (int64_t g = 0; g < std::min<int64_t>(kWide, count - n); ++g) {
      const int64_t block = call.lines.block[begin + (n + g) / wide];
      put_sum(call, block * grid.block_elements() + i * wide + (n + g) % wide, sums[g]);
    }
  }
}

/// The stored elements of one line of blocks [begin, end) at the row `top`.
template <typename Tiles>
void outer_line(const SparseOuter& call, bool instruction, int64_t top, int64_t begin, int64_t end) {
  const SparseGrid& grid = call.grid;
  if (kSide > 1 && grid.block_rows % kSide == 0 && grid.block_columns % kSide == 0)
    return outer_blocks<Tiles>(call, instruction, top, begin, end);
  for (int64_t i = 0; i < grid.block_rows; ++i) outer_row<Tiles>(call, instruction, top + i, i, begin, end);
}

}  // namespace

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
  const int64_t wide = cpu::kOuterBand / (kOuterTokens * (call.a_pairs ? 2 : 4));
  for (int64_t line = begin; line < end; ++line) next[line] = lines.first[line * lines.parts];
  for (int64_t band = 0; band < grid.columns(); band += wide)
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = next[line], all = lines.first[(line + 1) * lines.parts], top = line * grid.block_rows;
      int64_t last = first;
      while (last < all && lines.other[last] < band + wide) ++last;
      next[line] = static_cast<int32_t>(last);
      if constexpr (kPieces == 1)
        if (call.a_pairs) {
          const auto* least = call.a_least + top;
          const auto lowest = *std::min_element(least, least + grid.block_rows);
          outer_line<PairTiles>(call, cpu::takes_instruction(lowest, call.b_least), top, first, last);
          continue;
        }
      outer_line<WideTiles>(call, true, top, first, last);
    }
}
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SparsePack);
HWY_EXPORT(SparseOuterLines);

namespace {

using cpu::kPanelTokens;
using cpu::SparseOuter;

/// Elements of an operand's part that is packed.
int64_t packed(const ops::SparseActivation& lies) { return lies.panel ? 0 : lies.features * kOuterTokens; }

int64_t outer_scratch(const NodeSignature& node, int threads) {
  const ops::SparseOuterForm form = ops::sparse_outer_form(node);
  const SparseGrid& grid = form.grid;
  return cpu::lines_scratch(grid, false, form.groups, threads) + cpu::scratch_bytes(cpu::line_count(grid, false) * 4) +
         (packed(form.a) + packed(form.b)) * 4 + cpu::scratch_bytes((grid.rows() + grid.columns()) * 2);
}

/// Room for as many lines and packed rows as outer_scratch counts.
struct OuterRoom {
  int32_t* next;
  float *a, *b;
  cpu::LeastBits* least;  // of the rows of both
};

/// Packs tokens [first, first + tokens) of both operands, where they are not in panels.
void pack_outer(const ops::SparseOuterForm& form, DType dtype, const void* left, const void* right, int64_t first,
                int64_t tokens, const OuterRoom& room, ThreadTeam& team, SparseOuter& call) {
  const int64_t rows = call.grid.rows(), columns = call.grid.columns();
  const bool pairs = cpu::takes_bf16_pairs(dtype, dtype, kOuterTokens, false);
  const auto pack = [&](const void* source, const ops::SparseActivation& lies, cpu::LeastBits* least,
                        float* to) -> const void* {
    const int64_t width = lies.features;
    if (lies.panel) {
      const char* panel = static_cast<const char*>(source) + lies.element(first, 0) * size_of(dtype);
      if (pairs)
        team.split(width, kPanelTokens, [&](int64_t begin, int64_t end, int) {
          std::fill(least + begin, least + end, cpu::kNoLeast);
          cpu::see_token_pairs(reinterpret_cast<const uint16_t*>(panel) + begin * kOuterTokens, kOuterTokens,
                               end - begin, tokens, least + begin);
        });
      return panel;
    }
    team.split(width, kPanelTokens, [&](int64_t begin, int64_t end, int) {
      if (!pairs) return HWY_DYNAMIC_DISPATCH(SparsePack)(dtype, source, width, first, tokens, begin, end, to);
      std::fill(least + begin, least + end, cpu::kNoLeast);
      cpu::pack_token_pairs(static_cast<const uint16_t*>(source) + first * width + begin, width, end - begin, tokens,
                            reinterpret_cast<uint16_t*>(to) + begin * kOuterTokens, kOuterTokens, least + begin);
    });
    return to;
  };
  const void* a = pack(left, form.a, room.least, room.a);
  const void* b = pack(right, form.b, room.least + rows, room.b);
  call.a = static_cast<const float*>(a), call.b = static_cast<const float*>(b);
  if (!pairs) return;
  call.a_pairs = static_cast<const uint16_t*>(a), call.b_pairs = static_cast<const uint16_t*>(b);
  call.a_least = room.least;
  call.b_least = *std::min_element(room.least + rows, room.least + rows + columns);
}

/// One product.
void run_outer(const ops::SparseOuterForm& form, DType dtype, const void* left, const void* right, SparseOuter call,
               const OuterRoom& room, ThreadTeam& team) {
  const SparseGrid& grid = form.grid;
  if (form.tokens == 0) std::fill_n(call.out, grid.stored_elements(), 0.0f);
  for (int64_t first = 0; first < form.tokens; first += kOuterTokens) {
    const int64_t tokens = std::min(kOuterTokens, form.tokens - first);
    call.tokens = (tokens + 31) / 32 * 32;
    call.first = first == 0;
    pack_outer(form, dtype, left, right, first, tokens, room, team, call);
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
  own.a = room.take<float>(packed(form.a));
  own.b = room.take<float>(packed(form.b));
  own.least = room.take<cpu::LeastBits>(grid.rows() + grid.columns());
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

std::string refuse_outer(const NodeSignature& node) {
  if (const std::string refused = cpu::refuse_sparse_types(node); !refused.empty()) return refused;
  const ops::SparseOuterForm form = ops::sparse_outer_form(node);
  for (const int64_t panel : {form.a.panel, form.b.panel})
    if (panel != 0 && (panel != cpu::kMemoryPanel || !cpu::takes_panels(node.inputs[0].dtype)))
      return "not for panels of " + std::to_string(panel) + " tokens";
  return "";
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

void cpu::add_sparse_outer(Backend& backend) {
  backend.add(cpu::sparse_entry(
      "sparse_outer", 2, [](const NodeSignature& node) { return node.attributes.get_bool_or("grouped", false); },
      refuse_outer,
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = ops::sparse_outer_form(node)](const KernelContext& context) {
          run_outers(node, form, context);
        };
      },
      outer_scratch));
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
