// Sums over pairs of nodes whose filter is a network of the distance. A thread computes the filters of a few pairs in
// its scratch and uses them at once. An element of a product is one chain over the depth, so that neither the width of
// vectors nor blocks change a bit. Gradients of the network sum over pairs in kLanes lanes of whole chunks of pairs,
// whatever the number of threads is. Pairs are counted over the whole batch, so that it does not matter which samples
// they are in.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/radial.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/filter_network.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

#ifndef RAMET_FILTER_NETWORK_TYPES_
#define RAMET_FILTER_NETWORK_TYPES_
namespace ramet::kernel::cpu {

constexpr int64_t kTile = 64;       // pairs whose filters a thread computes at once
constexpr int64_t kChunk = 256;     // pairs of a batch whose gradients one lane adds up in a row
constexpr int64_t kLanes = 8;       // sums of gradients
constexpr int64_t kBlock = 16;      // floats of a cache line, which padded rows are a multiple of
constexpr int64_t kRowsAtOnce = 4;  // that rows of a product are a multiple of

inline int64_t padded(int64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }
/// Floats from one padded row to the next: an odd number of cache lines, so that the same columns of many rows do not
/// share few places of a cache.
inline int64_t row_step(int64_t size) { return padded(size) | kBlock; }

/// A network's extents, with rows padded by zeros, and where its parts lie in floats.
struct NetworkLayout {
  int64_t gaussians, hidden, width;                       ///< as they are
  int64_t padded_gaussians, padded_hidden, padded_width;  ///< multiples of kBlock
  int64_t gaussian_step, hidden_step, width_step;         ///< from row to row

  explicit NetworkLayout(const ops::RadialForm& form)
      : gaussians(form.gaussians),
        hidden(form.hidden),
        width(form.width),
        padded_gaussians(padded(gaussians)),
        padded_hidden(padded(hidden)),
        padded_width(padded(width)),
        gaussian_step(row_step(gaussians)),
        hidden_step(row_step(hidden)),
        width_step(row_step(width)) {}

  /// w1 transposed, b1, w2 transposed or as it is, b2.
  int64_t weights() const {
    return (gaussians + 1) * hidden_step + std::max(hidden * width_step, width * hidden_step) + width_step;
  }
  /// Of a tile: Gaussians, hidden features and their slopes, filters, envelopes.
  int64_t tile() const { return kTile * (gaussian_step + 2 * hidden_step + width_step + 1); }
  /// Gradients of w1, b1, w2, b2.
  int64_t sums() const { return padded_hidden * gaussian_step + hidden_step + padded_width * hidden_step + width_step; }
};

/// The weights of a network in scratch, with padded rows.
struct NetworkWeights {
  const float *w1, *b1, *w2, *b2;
};

/// Parts of a thread's scratch.
struct FilterTile {
  float *basis, *hidden, *slope, *filter, *envelope;
  FilterTile(const NetworkLayout& layout, float* scratch)
      : basis(scratch),
        hidden(basis + kTile * layout.gaussian_step),
        slope(hidden + kTile * layout.hidden_step),
        filter(slope + kTile * layout.hidden_step),
        envelope(filter + kTile * layout.width_step) {}
};

/// Sums of a lane.
struct NetworkSums {
  float *w1, *b1, *w2, *b2;
  NetworkSums(const NetworkLayout& layout, float* scratch)
      : w1(scratch),
        b1(w1 + layout.padded_hidden * layout.gaussian_step),
        w2(b1 + layout.hidden_step),
        b2(w2 + layout.padded_width * layout.hidden_step) {}
};

struct NetworkCall {
  RadialCall pairs;
  const NetworkLayout* layout = nullptr;
  NetworkWeights weights{};
  float* kept = nullptr;  ///< filters of pairs that are stored, [P, F]; null where none are
};

struct TilePair {
  int64_t pair, first, second;
};

}  // namespace ramet::kernel::cpu
#endif  // RAMET_FILTER_NETWORK_TYPES_

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::FilterTile;
using cpu::kRowsAtOnce;
using cpu::kTile;
using cpu::NetworkCall;
using cpu::NetworkLayout;
using cpu::NetworkSums;
using cpu::RadialCall;
using cpu::TilePair;

/// Element (row, k) of a matrix lies at row * row_step + k * step.
struct Left {
  const float* at;
  int64_t row_step, step;
};
struct Right {
  const float* at;
  int64_t row_step;
};

/// c [kRows, kVectors vectors] = left right + bias, or c + left right.
template <int kRows, int kVectors>
HWY_INLINE void multiply_block(const Left& left, const Right& right, int64_t depth, const float* bias, bool adds,
                               float* c, int64_t c_step) {
  const Df d;
  const int64_t lanes = vector_lanes();
  Vf sums[kRows][kVectors];
  RAMET_UNROLL
  for (int r = 0; r < kRows; ++r) RAMET_UNROLL
  for (int v = 0; v < kVectors; ++v)
    sums[r][v] = adds ? hn::LoadU(d, c + r * c_step + v * lanes) : bias ? hn::LoadU(d, bias + v * lanes) : hn::Zero(d);
  const float* a = left.at;
  const float* b = right.at;
  for (int64_t k = 0; k < depth; ++k, a += left.step, b += right.row_step) {
    Vf values[kVectors];
    RAMET_UNROLL
    for (int v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, b + v * lanes);
    RAMET_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vf factor = hn::Set(d, a[r * left.row_step]);
      RAMET_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, values[v], sums[r][v]);
    }
  }
  RAMET_UNROLL
  for (int r = 0; r < kRows; ++r) RAMET_UNROLL
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_step + v * lanes);
}

/// Rows and vectors of the largest block of a product, whose sums are registers.
constexpr int kMostRows = hn::MaxLanes(Df()) >= 16 ? 12 : 4, kMostVectors = 2;

/// Columns of kVectors vectors from `column` on, for all rows.
template <int kVectors>
HWY_INLINE void multiply_columns(const Left& left, const Right& right, int64_t rows, int64_t column, int64_t depth,
                                 const float* bias, bool adds, float* c, int64_t c_step) {
  const Right part{right.at + column, right.row_step};
  const auto block = [&]<int kRows>(int64_t row) HWY_ATTR {
    multiply_block<kRows, kVectors>({left.at + row * left.row_step, left.row_step, left.step}, part, depth,
                                    bias ? bias + column : nullptr, adds, c + row * c_step + column, c_step);
  };
  int64_t row = 0;
  for (; row + kMostRows <= rows; row += kMostRows) block.template operator()<kMostRows>(row);
  for (; row < rows; row += kRowsAtOnce) block.template operator()<kRowsAtOnce>(row);
}

/// c [rows, columns] = left [rows, depth] right [depth, columns] + bias [columns], or with `adds` c + left right. Rows
/// are a multiple of kRowsAtOnce, columns one of kBlock.
void multiply_into(const Left& left, const Right& right, int64_t rows, int64_t columns, int64_t depth,
                   const float* bias, bool adds, float* c, int64_t c_step) {
  const int64_t lanes = vector_lanes();
  int64_t column = 0;
  for (; column + kMostVectors * lanes <= columns; column += kMostVectors * lanes)
    multiply_columns<kMostVectors>(left, right, rows, column, depth, bias, adds, c, c_step);
  for (; column < columns; column += lanes)
    multiply_columns<1>(left, right, rows, column, depth, bias, adds, c, c_step);
}

int64_t whole_rows(int64_t count) { return (count + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce; }

/// Gaussians and envelopes of the tile's pairs. The rest of a tile's last rows is 0.
void fill_basis(const NetworkCall& call, const std::array<TilePair, kTile>& pairs, int64_t count,
                const FilterTile& tile) {
  const Df d;
  const NetworkLayout& layout = *call.layout;
  const double cutoff = call.pairs.form->cutoff, step = cutoff / static_cast<double>(layout.gaussians - 1);
  const Vf factor = hn::Set(d, static_cast<float>(-0.5 / (step * step)));
  std::fill(tile.basis, tile.basis + whole_rows(count) * layout.gaussian_step, 0.0f);
  float distance[kTile] = {};
  for (int64_t i = 0; i < count; ++i) {
    distance[i] = call.pairs.distance[pairs[static_cast<size_t>(i)].pair];
    walk_vectors(layout.gaussians, [&](int64_t k, int64_t part) {
      const Vf number = hn::Iota(d, static_cast<float>(k));
      const Vf apart = hn::NegMulAdd(number, hn::Set(d, static_cast<float>(step)), hn::Set(d, distance[i]));
      store_part(ExpNegative(d, hn::Mul(factor, hn::Mul(apart, apart))), tile.basis + i * layout.gaussian_step + k,
                 part);
    });
  }
  walk_vectors(kTile, [&](int64_t i, int64_t part) {
    const Vf angle = hn::Mul(load_part(distance + i, part), hn::Set(d, static_cast<float>(std::numbers::pi / cutoff)));
    const Vf half = hn::Set(d, 0.5f);
    store_part(hn::MulAdd(half, SineTurned(d, angle, 1), half), tile.envelope + i, part);
  });
}

/// Calls `visit(i)` for the places of vectors of a tile's hidden features.
template <typename Visit>
HWY_INLINE void for_each_hidden(const NetworkLayout& layout, int64_t rows, const Visit& visit) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t h = 0; h < layout.padded_hidden; h += vector_lanes()) visit(row * layout.hidden_step + h);
}

/// The hidden features of a tile: log(1 + e^z) - log 2, and with `slopes` its derivative 1 / (1 + e^-z).
void fill_hidden(const NetworkCall& call, int64_t rows, bool slopes, const FilterTile& tile) {
  const Df d;
  const NetworkLayout& layout = *call.layout;
  multiply_into({tile.basis, layout.gaussian_step, 1}, {call.weights.w1, layout.hidden_step}, rows,
                layout.padded_hidden, layout.gaussians, call.weights.b1, false, tile.hidden, layout.hidden_step);
  const Vf one = hn::Set(d, 1.0f), log_two = hn::Set(d, std::numbers::ln2_v<float>);
  for_each_hidden(layout, rows, [&](int64_t i) HWY_ATTR {
    const Vf z = hn::LoadU(d, tile.hidden + i);
    const Vf power = ExpNegative(d, hn::Neg(hn::Abs(z)));
    const Vf softplus = hn::Add(hn::Max(z, hn::Zero(d)), Log1pOfShare(d, power));
    hn::StoreU(hn::Sub(softplus, log_two), d, tile.hidden + i);
    if (!slopes) return;
    const Vf upper = hn::Div(one, hn::Add(one, power));
    hn::StoreU(hn::IfThenElse(hn::Lt(z, hn::Zero(d)), hn::Mul(power, upper), upper), d, tile.slope + i);
  });
}

/// Adds what a pair gives to those of its rows that are in [begin, end). `filter(f, part)` is a vector of its filter.
template <typename Filter>
HWY_INLINE void add_pair(const RadialCall& of, int64_t first, int64_t second, int64_t begin, int64_t end,
                         const Filter& filter) {
  const int64_t width = of.form->width;
  const bool own_first = first >= begin && first < end, own_second = second >= begin && second < end;
  const float *const x_first = of.x + first * width, *const x_second = of.x + second * width;
  float *const to_first = of.out + first * width, *const to_second = of.out + second * width;
  walk_vectors(width, [&](int64_t f, int64_t part) HWY_ATTR {
    const Vf value = filter(f, part);
    const Vf of_first = load_part(x_first + f, part), of_second = load_part(x_second + f, part);
    if (own_first) store_part(hn::MulAdd(value, of_second, load_part(to_first + f, part)), to_first + f, part);
    if (own_second) store_part(hn::MulAdd(value, of_first, load_part(to_second + f, part)), to_second + f, part);
  });
}

/// Adds filter times rows for the pairs of a tile, in order. Filters to keep are stored with the first row's thread.
void add_tile(const NetworkCall& call, const std::array<TilePair, kTile>& pairs, int64_t count, const FilterTile& tile,
              int64_t begin, int64_t end) {
  const Df d;
  for (int64_t i = 0; i < count; ++i) {
    const auto [pair, first, second] = pairs[static_cast<size_t>(i)];
    const Vf envelope = hn::Set(d, tile.envelope[i]);
    const float* const filters = tile.filter + i * call.layout->width_step;
    float* const kept = call.kept && first >= begin && first < end ? call.kept + pair * call.layout->width : nullptr;
    add_pair(call.pairs, first, second, begin, end, [&](int64_t f, int64_t part) HWY_ATTR {
      const Vf filter = hn::Mul(load_part(filters + f, part), envelope);
      if (kept) store_part(filter, kept + f, part);
      return filter;
    });
  }
}

/// The gradients of a tile's filters, times the envelope, in place of the filters.
void fill_gradients(const NetworkCall& call, const std::array<TilePair, kTile>& pairs, int64_t count,
                    const FilterTile& tile) {
  const Df d;
  const int64_t width = call.layout->width, width_step = call.layout->width_step;
  const RadialCall& of = call.pairs;
  std::fill(tile.filter, tile.filter + whole_rows(count) * width_step, 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const auto [pair, first, second] = pairs[static_cast<size_t>(i)];
    const Vf envelope = hn::Set(d, tile.envelope[i]);
    walk_vectors(width, [&](int64_t f, int64_t part) {
      const auto at = [&](const float* values, int64_t row) { return load_part(values + row * width + f, part); };
      const Vf one_way = hn::Mul(at(of.dy, first), at(of.x, second));
      const Vf both = hn::MulAdd(at(of.dy, second), at(of.x, first), one_way);
      store_part(hn::Mul(both, envelope), tile.filter + i * width_step + f, part);
    });
  }
}

/// sums [columns] += the rows of a matrix, which are `step` apart, one after another.
void add_rows(const float* rows, int64_t step, int64_t count, int64_t columns, float* sums) {
  const Df d;
  for (int64_t c = 0; c < columns; c += vector_lanes()) {
    Vf sum = hn::LoadU(d, sums + c);
    for (int64_t r = 0; r < count; ++r) sum = hn::Add(sum, hn::LoadU(d, rows + r * step + c));
    hn::StoreU(sum, d, sums + c);
  }
}

void add_tile_gradients(const NetworkCall& call, const std::array<TilePair, kTile>& pairs, int64_t count,
                        const FilterTile& tile, const NetworkSums& sums) {
  const Df d;
  const NetworkLayout& layout = *call.layout;
  const int64_t rows = whole_rows(count), hidden = layout.padded_hidden, width = layout.padded_width,
                hidden_step = layout.hidden_step, width_step = layout.width_step;
  fill_basis(call, pairs, count, tile);
  fill_hidden(call, rows, true, tile);
  fill_gradients(call, pairs, count, tile);
  multiply_into({tile.filter, 1, width_step}, {tile.hidden, hidden_step}, width, hidden, count, nullptr, true, sums.w2,
                hidden_step);
  add_rows(tile.filter, width_step, count, width, sums.b2);
  // In place of the hidden features their gradients in front of the softplus.
  multiply_into({tile.filter, width_step, 1}, {call.weights.w2, hidden_step}, rows, hidden, layout.width, nullptr,
                false, tile.hidden, hidden_step);
  for_each_hidden(layout, rows, [&](int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, tile.hidden + i), hn::LoadU(d, tile.slope + i)), d, tile.hidden + i);
  });
  multiply_into({tile.hidden, 1, hidden_step}, {tile.basis, layout.gaussian_step}, hidden, layout.padded_gaussians,
                count, nullptr, true, sums.w1, layout.gaussian_step);
  add_rows(tile.hidden, hidden_step, count, hidden, sums.b1);
}

}  // namespace

/// Rows [begin, end) of the sums.
void SumNetwork(const NetworkCall& call, int64_t begin, int64_t end, float* scratch) {
  const NetworkLayout& layout = *call.layout;
  const FilterTile tile(layout, scratch);
  std::fill(call.pairs.out + begin * layout.width, call.pairs.out + end * layout.width, 0.0f);
  std::array<TilePair, kTile> pairs{};
  int64_t count = 0;
  const auto finish = [&] {
    fill_basis(call, pairs, count, tile);
    fill_hidden(call, whole_rows(count), false, tile);
    multiply_into({tile.hidden, layout.hidden_step, 1}, {call.weights.w2, layout.width_step}, whole_rows(count),
                  layout.padded_width, layout.hidden, call.weights.b2, false, tile.filter, layout.width_step);
    add_tile(call, pairs, count, tile, begin, end);
    count = 0;
  };
  cpu::walk_pairs(call.pairs, begin, end, [&](int64_t pair, int64_t first, int64_t second) {
    pairs[static_cast<size_t>(count++)] = {pair, first, second};
    if (count == kTile) finish();
  });
  if (count > 0) finish();
}

/// Rows [begin, end) of the sums with filters [P, F] that are at hand.
void SumGiven(const RadialCall& call, const float* filters, int64_t begin, int64_t end) {
  const int64_t width = call.form->width;
  std::fill(call.out + begin * width, call.out + end * width, 0.0f);
  cpu::walk_pairs(call, begin, end, [&](int64_t pair, int64_t first, int64_t second) {
    const float* const filter = filters + pair * width;
    add_pair(call, first, second, begin, end,
             [&](int64_t f, int64_t part) HWY_ATTR { return load_part(filter + f, part); });
  });
}

/// Adds the gradients of the pairs [begin, end) to the sums of a lane.
void AddNetworkGradient(const NetworkCall& call, int64_t begin, int64_t end, float* scratch, float* lane) {
  const FilterTile tile(*call.layout, scratch);
  const NetworkSums sums(*call.layout, lane);
  const int32_t* const ptr = call.pairs.ptr;
  int64_t row = std::upper_bound(ptr, ptr + call.pairs.form->rows + 1, static_cast<int32_t>(begin)) - ptr - 1;
  std::array<TilePair, kTile> pairs{};
  for (int64_t at = begin; at < end; at += kTile) {
    const int64_t count = std::min(kTile, end - at);
    for (int64_t i = 0; i < count; ++i) {
      while (ptr[row + 1] <= at + i) ++row;
      pairs[static_cast<size_t>(i)] = {at + i, row, int64_t{call.pairs.second[at + i]}};
    }
    add_tile_gradients(call, pairs, count, tile, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SumNetwork);
HWY_EXPORT(SumGiven);
HWY_EXPORT(AddNetworkGradient);

namespace {

using cpu::kChunk;
using cpu::kLanes;
using cpu::NetworkCall;
using cpu::NetworkLayout;
using cpu::NetworkSums;
using cpu::NetworkWeights;
using cpu::RadialCall;

const float* floats(const KernelContext& context, size_t input) {
  return static_cast<const float*>(context.inputs[input]);
}

/// out [columns, padded rows] = the transpose of in [rows, columns], with zeros.
float* transpose_padded(const float* in, int64_t rows, int64_t columns, float* out) {
  const int64_t step = cpu::row_step(rows);
  std::fill(out, out + columns * step, 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[c * step + r] = in[r * columns + c];
  return out + columns * step;
}
float* copy_padded(const float* in, int64_t rows, int64_t columns, float* out) {
  const int64_t step = cpu::row_step(columns);
  std::fill(out, out + rows * step, 0.0f);
  for (int64_t r = 0; r < rows; ++r) std::copy(in + r * columns, in + (r + 1) * columns, out + r * step);
  return out + rows * step;
}

/// Writes the weights to scratch: w2 transposed for sums, as it is for gradients.
NetworkWeights place_weights(const NetworkLayout& layout, const KernelContext& context, size_t first, bool gradient,
                             float* scratch) {
  NetworkWeights weights{.w1 = scratch, .b1 = nullptr, .w2 = nullptr, .b2 = nullptr};
  float* next = transpose_padded(floats(context, first), layout.hidden, layout.gaussians, scratch);
  weights.b1 = next;
  next = copy_padded(floats(context, first + 1), 1, layout.hidden, next);
  weights.w2 = next;
  next = gradient ? copy_padded(floats(context, first + 2), layout.width, layout.hidden, next)
                  : transpose_padded(floats(context, first + 2), layout.width, layout.hidden, next);
  if (gradient) return weights;
  weights.b2 = next;
  copy_padded(floats(context, first + 3), 1, layout.width, next);
  return weights;
}

void run_network_sum(const NodeSignature& node, const KernelContext& context) {
  const ops::RadialForm form = ops::network_filter_form(node);
  const NetworkLayout layout(form);
  auto* const scratch = static_cast<float*>(context.scratch);
  const NetworkWeights weights = place_weights(layout, context, 4, false, scratch);
  auto* const kept = node.outputs.size() > 1 ? static_cast<float*>(context.outputs[1]) : nullptr;
  cpu::sum_samples(node, form, context, [&](const RadialCall& pairs, int64_t b, int64_t begin, int64_t end, int rank) {
    NetworkCall call{.pairs = pairs, .layout = &layout, .weights = weights};
    if (kept) {
      call.kept = kept + b * form.pairs * form.width;
      if (end == form.rows)  // places without a pair
        std::fill(call.kept + pairs.pairs() * form.width, call.kept + form.pairs * form.width, 0.0f);
    }
    HWY_DYNAMIC_DISPATCH(SumNetwork)(call, begin, end, scratch + layout.weights() + rank * layout.tile());
  });
}

void run_given_sum(const NodeSignature& node, const KernelContext& context) {
  const ops::RadialForm form = ops::pair_filter_form(node);
  cpu::sum_samples(node, form, context, [&](const RadialCall& pairs, int64_t b, int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(SumGiven)(pairs, floats(context, 4) + b * form.pairs * form.width, begin, end);
  });
}

/// Element i of the sums of all lanes, as a balanced tree.
float sum_of_lanes(const float* lanes, int64_t step, int64_t i) {
  std::array<float, kLanes> sums{};
  for (int64_t lane = 0; lane < kLanes; ++lane) sums[static_cast<size_t>(lane)] = lanes[lane * step + i];
  for (size_t apart = 1; apart < kLanes; apart *= 2)
    for (size_t lane = 0; lane + apart < kLanes; lane += 2 * apart) sums[lane] += sums[lane + apart];
  return sums[0];
}

/// The sums of one lane: those of every kLanes-th chunk of the pairs of all samples.
void sum_lane(NetworkCall call, int64_t lane, float* scratch, float* sums) {
  std::fill(sums, sums + call.layout->sums(), 0.0f);
  const RadialCall first = call.pairs;
  int64_t before = 0;  // pairs of the samples in front
  for (int64_t b = 0; b < first.form->batch; ++b) {
    call.pairs = cpu::pairs_of_sample(first, b);
    const int64_t last = before + call.pairs.pairs();
    for (int64_t at = before, next = 0; at < last; at = next) {
      next = std::min((at / kChunk + 1) * kChunk, last);
      if (at / kChunk % kLanes == lane)
        HWY_DYNAMIC_DISPATCH(AddNetworkGradient)(call, at - before, next - before, scratch, sums);
    }
    before = last;
  }
}

void run_network_gradient(const NodeSignature& node, const KernelContext& context) {
  const ops::RadialForm form = ops::network_gradient_form(node);
  const NetworkLayout layout(form);
  auto* const scratch = static_cast<float*>(context.scratch);
  float* const lanes = scratch + layout.weights() + context.team.size() * layout.tile();
  RadialCall first = cpu::checked_pairs(node, form, context);
  first.dy = floats(context, 0);
  first.x = floats(context, 4);
  const NetworkWeights weights = place_weights(layout, context, 5, true, scratch);
  context.team.split(kLanes, 1, [&](int64_t begin, int64_t end, int rank) {
    for (int64_t lane = begin; lane < end; ++lane)
      sum_lane({.pairs = first, .layout = &layout, .weights = weights}, lane,
               scratch + layout.weights() + rank * layout.tile(), lanes + lane * layout.sums());
  });
  const NetworkSums sums(layout, lanes);
  const auto give = [&](size_t output, const float* from, int64_t rows, int64_t columns, int64_t step) {
    auto* const to = static_cast<float*>(context.outputs[output]);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[r * columns + c] = sum_of_lanes(from, layout.sums(), r * step + c);
  };
  give(0, sums.w1, layout.hidden, layout.gaussians, layout.gaussian_step);
  give(1, sums.b1, 1, layout.hidden, layout.hidden_step);
  give(2, sums.w2, layout.width, layout.hidden, layout.hidden_step);
  give(3, sums.b2, 1, layout.width, layout.width_step);
}

int64_t scratch_bytes(const ops::RadialForm& form, int threads, bool gradient) {
  const NetworkLayout layout(form);
  return (layout.weights() + threads * layout.tile() + (gradient ? kLanes * layout.sums() : 0)) *
         static_cast<int64_t>(sizeof(float));
}
int64_t sum_scratch(const NodeSignature& node, int threads) {
  return scratch_bytes(ops::network_filter_form(node), threads, false);
}
int64_t gradient_scratch(const NodeSignature& node, int threads) {
  return scratch_bytes(ops::network_gradient_form(node), threads, true);
}

}  // namespace

void cpu::add_network_filters(Backend& backend) {
  add_pair_kernel(backend, "network_filter_sum", run_network_sum, sum_scratch);
  add_pair_kernel(backend, "network_filter_gradient", run_network_gradient, gradient_scratch);
  add_pair_kernel(backend, "pair_filter_sum", run_given_sum, {});
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
