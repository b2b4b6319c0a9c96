// Moments over samples and space, and the sums that gradients of norms need: blocks in vectors, joined by a balanced
// tree, whatever the team.

#include "ramet/ops/channel_norm.h"

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/channel_norm.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/channel_norm.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/channels-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

#ifndef RAMET_CHANNEL_NORM_ONCE
#define RAMET_CHANNEL_NORM_ONCE
namespace ramet::kernel::cpu {

/// Blocks of one piece: a power of two, so that pieces are whole branches of the tree of all blocks.
constexpr int64_t kSuperBlocks = 4;
constexpr int64_t kSuperRows = kSuperBlocks * kMomentRows;

/// How the numbers of a and b elements meet (Chan et al. 1979): mean += off * share, squares += off^2 * weight.
struct MomentShares {
  float share, weight;
  MomentShares(double a, double b)
      : share(static_cast<float>(b / (a + b))), weight(static_cast<float>(a * (b / (a + b)))) {}
};

/// Walks the balanced tree of `tree_combine` over `count` leaves from the left, with a stack of finished branches:
/// `leaf(i, depth)` fills a place, `join(depth)` joins place depth + 1 into place depth.
template <typename Leaf, typename Join>
inline void walk_tree(int64_t count, const Leaf& leaf, const Join& join) {
  int depth = 0;
  for (int64_t i = 0; i < count; ++i) {
    leaf(i, depth++);
    for (int64_t ones = i; ones & 1; ones >>= 1) --depth, join(depth - 1);
  }
  while (depth > 1) --depth, join(depth - 1);
}

}  // namespace ramet::kernel::cpu
#endif  // RAMET_CHANNEL_NORM_ONCE

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::ChannelArguments;
using cpu::kChannelTile;
using cpu::MomentShares;

/// Most tiles that one piece walks over together, so that it reads rows in long stretches.
constexpr int64_t kMostTiles = 8;

/// Two numbers for each channel of a tile, of so many elements.
struct Tile {
  float first[kChannelTile], second[kChannelTile];
  double count;
};

/// Joins the branch to the right into that to the left.
void join_tiles(bool moments, float* first, float* second, double count, const float* other_first,
                const float* other_second, double other_count) {
  const Df d;
  const MomentShares shares(count, other_count);
  const Vf share = hn::Set(d, shares.share), weight = hn::Set(d, shares.weight);
  for (int64_t i = 0; i < kChannelTile; i += vector_lanes()) {
    const Vf a = hn::LoadU(d, first + i), b = hn::LoadU(d, other_first + i);
    const Vf sum = hn::Add(hn::LoadU(d, second + i), hn::LoadU(d, other_second + i));
    const Vf off = hn::Sub(b, a);
    hn::StoreU(moments ? hn::MulAdd(off, share, a) : hn::Add(a, b), d, first + i);
    hn::StoreU(moments ? hn::MulAdd(hn::Mul(off, off), weight, sum) : sum, d, second + i);
  }
}

struct Pair {
  float first, second;
  double count;
};
Pair joined(bool moments, const Pair& a, const Pair& b) {
  if (!moments) return {a.first + b.first, a.second + b.second, a.count + b.count};
  const Df d;
  const MomentShares shares(a.count, b.count);
  const Vf off = hn::Set(d, b.first - a.first);
  const Vf mean = hn::MulAdd(off, hn::Set(d, shares.share), hn::Set(d, a.first));
  const Vf squares = hn::MulAdd(hn::Mul(off, off), hn::Set(d, shares.weight), hn::Set(d, a.second + b.second));
  return {hn::GetLane(mean), hn::GetLane(squares), a.count + b.count};
}

template <class T>
struct Loops {
  /// kVectors vectors of channels of `rows` rows. Numbers are summed without `shifts`, which are near their mean, so
  /// that the sum of squares tells their deviation.
  template <int kVectors>
  static HWY_INLINE void moments_block(const ChannelArguments& call, const float* shifts, int64_t at, int64_t rows,
                                       int64_t count, float* mean, float* squares) {
    const Df d;
    const T* a = static_cast<const T*>(call.a) + at;
    Vf sum[kVectors], square[kVectors], shift[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = square[v] = hn::Zero(d);
      shift[v] = hn::LoadU(d, shifts + v * vector_lanes());
    }
    for (int64_t row = 0; row < rows; ++row)
      for (int v = 0; v < kVectors; ++v) {
        prefetch_next<kVectors>(a + row * call.channels, v);
        const Vf off = hn::Sub(load<kVectors>(a + row * call.channels, v, count, call.a_end), shift[v]);
        sum[v] = hn::Add(sum[v], off);
        square[v] = hn::MulAdd(off, off, square[v]);
      }
    const Vf elements = hn::Set(d, static_cast<float>(rows));
    for (int v = 0; v < kVectors; ++v) {
      const Vf middle = hn::Div(sum[v], elements);
      hn::StoreU(middle, d, mean + v * vector_lanes());
      hn::StoreU(deviations(sum[v], middle, square[v]), d, squares + v * vector_lanes());
    }
  }
  /// Sum of squared deviations from the mean `middle`, of the sum and the sum of squares; NaN stays.
  static HWY_INLINE Vf deviations(Vf sum, Vf middle, Vf square) {
    const Vf rest = hn::NegMulAdd(sum, middle, square), none = hn::Zero(Df());
    return hn::IfThenElse(hn::Lt(rest, none), none, rest);
  }

  template <int kVectors>
  static HWY_INLINE void sums_block(const ChannelArguments& call, const float* means, int64_t at, int64_t rows,
                                    int64_t count, float* first, float* second) {
    const Df d;
    const T *a = static_cast<const T*>(call.a) + at, *dy = static_cast<const T*>(call.dy) + at;
    Vf sum[kVectors], product[kVectors], mean[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = product[v] = hn::Zero(d);
      mean[v] = kVectors > 1 ? hn::LoadU(d, means + v * vector_lanes()) : load_part(means, count);
    }
    for (int64_t row = 0; row < rows; ++row)
      for (int v = 0; v < kVectors; ++v) {
        prefetch_next<kVectors>(a + row * call.channels, v);
        prefetch_next<kVectors>(dy + row * call.channels, v);
        const Vf slope = load<kVectors>(dy + row * call.channels, v, count, call.dy_end);
        const Vf off = hn::Sub(load<kVectors>(a + row * call.channels, v, count, call.a_end), mean[v]);
        sum[v] = hn::Add(sum[v], slope);
        product[v] = hn::MulAdd(slope, off, product[v]);
      }
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[v], d, first + v * vector_lanes());
      hn::StoreU(product[v], d, second + v * vector_lanes());
    }
  }

  /// The channels behind these, which are read after all rows of the block: no processor foresees such a walk.
  template <int kVectors>
  static HWY_INLINE void prefetch_next(const T* from, int v) {
    if (kVectors > 1) hwy::Prefetch(from + (kVectors + v) * vector_lanes());
  }

  template <int kVectors>
  static HWY_INLINE Vf load(const T* from, int v, int64_t count, const void* end) {
    return kVectors > 1 ? LoadF32(Df(), from + v * vector_lanes()) : load_within(from, count, end);
  }

  /// Rows [row, row + rows) of a segment, channels of a tile from `channel` on.
  static void block(const ChannelArguments& call, int64_t segment, int64_t row, int64_t rows, int64_t channel,
                    const float* shifts, Tile& tile) {
    const int64_t width = std::min(kChannelTile, call.channels - channel), step = vector_lanes();
    const float* means = call.moments ? nullptr : call.mean + (call.own_means ? segment * call.channels : 0) + channel;
    tile.count = static_cast<double>(rows);
    for (int64_t c = 0; c < width;) {
      const int64_t at = (segment * call.rows + row) * call.channels + channel + c;
      const bool four = c + 4 * step <= width;
      const int64_t count = std::min(step, width - c);
      if (call.moments && four)
        moments_block<4>(call, shifts + c, at, rows, count, tile.first + c, tile.second + c);
      else if (call.moments)
        moments_block<1>(call, shifts + c, at, rows, count, tile.first + c, tile.second + c);
      else if (four)
        sums_block<4>(call, means + c, at, rows, count, tile.first + c, tile.second + c);
      else
        sums_block<1>(call, means + c, at, rows, count, tile.first + c, tile.second + c);
      c += four ? 4 * step : step;
    }
  }

  /// The means of the first rows of a segment, as shifts of a tile of channels.
  static void shifts(const ChannelArguments& call, int64_t begin, int64_t end) {
    const float none[kChannelTile] = {};
    for (int64_t index = begin; index < end; ++index) {
      const int64_t segment = index / call.tiles, rows = std::min(kMomentRows, call.used_rows(segment));
      Tile tile{};
      if (rows > 0) block(call, segment, 0, rows, index % call.tiles * kChannelTile, none, tile);
      std::memcpy(call.shifts + index * kChannelTile, tile.first, sizeof tile.first);
    }
  }

  static void pieces(const ChannelArguments& call, int64_t begin, int64_t end) {
    // A piece of 4 blocks has at most 3 unfinished branches.
    Tile stack[kMostTiles][4];
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t groups = (call.tiles + call.group - 1) / call.group;
      const int64_t first_tile = piece % groups * call.group, super = piece / groups % call.supers;
      const int64_t segment = piece / (groups * call.supers);
      const int64_t tiles = std::min(call.group, call.tiles - first_tile);
      const auto made = [&](int64_t tile) {
        return call.pieces + ((segment * call.supers + super) * call.tiles + first_tile + tile) * 2 * kChannelTile;
      };
      const auto shifts = [&](int64_t tile) {
        return call.moments ? call.shifts + (segment * call.tiles + first_tile + tile) * kChannelTile : nullptr;
      };
      const int64_t from = super * cpu::kSuperRows, to = std::min(call.used_rows(segment), from + cpu::kSuperRows);
      if (to <= from) continue;
      std::memset(stack, 0, static_cast<size_t>(tiles) * sizeof stack[0]);
      cpu::walk_tree((to - from + kMomentRows - 1) / kMomentRows,
                     [&](int64_t i, int depth) {
                       const int64_t row = from + i * kMomentRows;
                       for (int64_t t = 0; t < tiles; ++t)
                         block(call, segment, row, std::min(kMomentRows, to - row), (first_tile + t) * kChannelTile,
                               shifts(t), stack[t][depth]);
                     },
                     [&](int depth) {
                       for (int64_t t = 0; t < tiles; ++t) {
                         Tile &left = stack[t][depth], &right = stack[t][depth + 1];
                         join_tiles(call.moments, left.first, left.second, left.count, right.first, right.second,
                                    right.count);
                         left.count += right.count;
                       }
                     });
      for (int64_t t = 0; t < tiles; ++t) {
        std::memcpy(made(t), stack[t][0].first, sizeof stack[t][0].first);
        std::memcpy(made(t) + kChannelTile, stack[t][0].second, sizeof stack[t][0].second);
      }
    }
  }

  static void combine(const ChannelArguments& call, int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t segment = index / call.tiles, tile = index % call.tiles, rows = call.used_rows(segment);
      float* places[64];
      double counts[64];
      cpu::walk_tree((rows + cpu::kSuperRows - 1) / cpu::kSuperRows,
                     [&](int64_t super, int depth) {
                       places[depth] =
                           call.pieces + ((segment * call.supers + super) * call.tiles + tile) * 2 * kChannelTile;
                       counts[depth] = static_cast<double>(std::min(cpu::kSuperRows, rows - super * cpu::kSuperRows));
                     },
                     [&](int depth) {
                       float *left = places[depth], *right = places[depth + 1];
                       join_tiles(call.moments, left, left + kChannelTile, counts[depth], right, right + kChannelTile,
                                  counts[depth + 1]);
                       counts[depth] += counts[depth + 1];
                     });
    }
  }

  /// `pieces` runs of `length` elements at distance `stride`, from element `at` on: sums about `center`, which is near
  /// the mean of moments.
  static Pair runs_block(const ChannelArguments& call, float center_of_unit, int64_t at, int64_t length, int64_t stride,
                         int64_t pieces) {
    const Df d;
    const T* a = static_cast<const T*>(call.a) + at;
    const T* dy = call.moments ? nullptr : static_cast<const T*>(call.dy) + at;
    const Vf center = hn::Set(d, center_of_unit);
    const double count = static_cast<double>(length) * static_cast<double>(pieces);
    RowLanes sums(0), products(0);
    for (int64_t piece = 0; piece < pieces; ++piece)
      for_each_vector(length, [&](int64_t i, int64_t v, int64_t part) HWY_ATTR {
        const int64_t from = piece * stride + i;
        const Vf off = keep_part(hn::Sub(load_part(a + from, part), center), part);
        const Vf factor = call.moments ? off : load_part(dy + from, part);
        sums.add(v, factor);
        products.lane[v] = hn::MulAdd(factor, off, products.lane[v]);
      });
    const float sum = sums.sum(), product = products.sum();
    if (!call.moments) return {sum, product, count};
    const float mean = sum / static_cast<float>(count);
    const Vf rest = deviations(hn::Set(d, sum), hn::Set(d, mean), hn::Set(d, product));
    return {mean, hn::GetLane(rest), count};
  }

  /// The mean of the first elements of a unit.
  static float center_of(const ChannelArguments& call, int64_t unit) {
    const T* a = static_cast<const T*>(call.a) + unit * call.unit_stride;
    const int64_t count = std::min<int64_t>(call.run, 2 * kRowLanes);
    RowLanes sums(0);
    for_each_vector(count, [&](int64_t i, int64_t v, int64_t part) HWY_ATTR { sums.add(v, load_part(a + i, part)); });
    return sums.sum() / static_cast<float>(count);
  }

  static void units(const ChannelArguments& call, int64_t begin, int64_t end) {
    // Short runs share a block; long ones are several.
    const bool share = call.run <= kMomentSpan / 2;
    const int64_t together = share ? kMomentSpan / call.run : 1;
    const int64_t spans = share ? 1 : (call.run + kMomentSpan - 1) / kMomentSpan;
    const int64_t blocks = share ? (call.runs + together - 1) / together : call.runs * spans;
    Pair stack[64];
    for (int64_t unit = begin; unit < end; ++unit) {
      const float center = call.moments ? center_of(call, unit) : call.mean[unit % call.means];
      cpu::walk_tree(
          blocks,
          [&](int64_t i, int depth) {
            const int64_t base = unit * call.unit_stride;
            if (share) {
              const int64_t run = i * together;
              stack[depth] = runs_block(call, center, base + run * call.run_stride, call.run, call.run_stride,
                                        std::min(together, call.runs - run));
            } else {
              const int64_t from = i % spans * kMomentSpan;
              stack[depth] = runs_block(call, center, base + i / spans * call.run_stride + from,
                                        std::min(kMomentSpan, call.run - from), 0, 1);
            }
          },
          [&](int depth) { stack[depth] = joined(call.moments, stack[depth], stack[depth + 1]); });
      call.first[unit] = call.moments ? center + stack[0].first : stack[0].first;
      call.second[unit] = call.moments ? stack[0].second / static_cast<float>(stack[0].count) : stack[0].second;
    }
  }

  static constexpr cpu::ChannelLoops kTable{shifts, pieces, combine, units};
};

}  // namespace

const cpu::ChannelLoops* GetChannelLoops(DType dtype) { return table_of<Loops>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetChannelLoops);

const cpu::ChannelLoops& cpu::channel_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetChannelLoops)(dtype);
}

namespace {

using cpu::ChannelArguments;
using cpu::kChannelTile;

/// Rows of all channels, one after another: channels last, or no space at all.
bool is_rows(const ChannelForm& form) { return form.channels_last || form.space == 1; }

/// A segment of rows for each sample, or one for all.
int64_t segments_of(const ChannelForm& form) { return form.each_sample ? form.samples : 1; }
int64_t rows_of(const ChannelForm& form) { return form.each_sample ? form.space : form.samples * form.space; }
int64_t supers_of(const ChannelForm& form) { return (rows_of(form) + cpu::kSuperRows - 1) / cpu::kSuperRows; }
int64_t tiles_of(const ChannelForm& form) { return (form.channels + kChannelTile - 1) / kChannelTile; }

int64_t scratch_of(const ChannelForm& form) {
  return is_rows(form) ? segments_of(form) * (2 * supers_of(form) + 1) * tiles_of(form) * kChannelTile * 4 : 0;
}

ChannelArguments arguments_of(const NodeSignature& node, const ChannelForm& form, const KernelContext& context) {
  ChannelArguments call;
  call.moments = form.moments;
  if (form.used) call.used = static_cast<const int32_t*>(context.inputs[1]);
  const size_t a = call.moments ? 0 : 1;
  const auto end = [&](size_t i) { return static_cast<const char*>(context.inputs[i]) + node.inputs[i].bytes(); };
  call.a = context.inputs[a], call.a_end = end(a);
  call.first = static_cast<float*>(context.outputs[0]);
  call.second = static_cast<float*>(context.outputs[1]);
  if (call.moments) return call;
  call.dy = context.inputs[0], call.dy_end = end(0);
  call.mean = static_cast<const float*>(context.inputs[2]);
  call.own_means = node.inputs[2].shape[0] != 1;
  return call;
}

/// From the combined pieces of a segment to its sums: of a group the moments of its channels, joined by a tree.
void write_sums(const ChannelForm& form, const ChannelArguments& call, int64_t segment) {
  const auto number = [&](int64_t channel, int which) {
    const int64_t piece = segment * call.supers * call.tiles + channel / kChannelTile;
    return call.pieces[(piece * 2 + which) * kChannelTile + channel % kChannelTile];
  };
  const int64_t rows = call.used_rows(segment);
  struct Moments {
    double count;
    float shift, mean, squares;
  };
  if (rows == 0) {
    for (float* to : {call.first, call.second}) std::fill_n(to + segment * form.sums(), form.sums(), 0.0f);
    return;
  }
  const int64_t neighbours = form.channels / form.sums();
  for (int64_t sum = 0; sum < form.sums(); ++sum) {
    const int64_t at = segment * form.sums() + sum;
    if (!call.moments) {
      call.first[at] = number(sum, 0), call.second[at] = number(sum, 1);
      continue;
    }
    const Moments all = tree_combine<Moments>(
        sum * neighbours, neighbours,
        [&](int64_t channel) {
          const float shift =
              call.shifts[(segment * call.tiles + channel / kChannelTile) * kChannelTile + channel % kChannelTile];
          return Moments{static_cast<double>(rows), shift, number(channel, 0), number(channel, 1)};
        },
        [](const Moments& a, const Moments& b) {
          const cpu::MomentShares shares(a.count, b.count);
          const float off = (b.shift - a.shift) + (b.mean - a.mean);
          return Moments{a.count + b.count, a.shift, a.mean + off * shares.share,
                         a.squares + b.squares + off * off * shares.weight};
        });
    call.first[at] = all.shift + all.mean;
    call.second[at] = all.squares / static_cast<float>(all.count);
  }
}

void run_rows(const ChannelForm& form, ChannelArguments call, DType dtype, const KernelContext& context) {
  const cpu::ChannelLoops& loops = cpu::channel_loops(dtype);
  call.channels = form.channels;
  call.rows = rows_of(form);
  call.supers = supers_of(form);
  call.tiles = tiles_of(form);
  const int64_t segments = segments_of(form);
  call.shifts = static_cast<float*>(context.scratch);
  call.pieces = call.shifts + segments * call.tiles * kChannelTile;
  const auto each = [&](int64_t count, cpu::ChannelLoops::Loop loop, int64_t grain = 1) {
    context.team.split(count, grain, [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  };
  if (call.moments) each(segments * call.tiles, loops.shifts, 4);
  // Enough pieces for all threads come first; the bits are the same for every group.
  call.group = segments * call.supers >= 4 * context.team.size() ? 8 : 1;
  each(segments * call.supers * ((call.tiles + call.group - 1) / call.group), loops.pieces);
  if (call.supers > 1) each(segments * call.tiles, loops.combine, std::max<int64_t>(1, 256 / call.supers));
  context.team.split(segments, std::max<int64_t>(1, 4096 / form.channels), [&](int64_t begin, int64_t end, int) {
    for (int64_t segment = begin; segment < end; ++segment) write_sums(form, call, segment);
  });
}

void run_units(const ChannelForm& form, ChannelArguments call, DType dtype, const KernelContext& context) {
  const cpu::ChannelLoops& loops = cpu::channel_loops(dtype);
  const int64_t neighbours = form.each_sample ? form.channels / form.groups : 1;
  call.runs = form.each_sample ? 1 : form.samples;
  call.run = neighbours * form.space;
  call.run_stride = form.channels * form.space;
  call.unit_stride = call.run;
  call.means = call.own_means ? form.samples * form.channels : form.channels;
  const int64_t units = (form.each_sample ? form.samples : 1) * form.sums();
  context.team.split(units, std::max<int64_t>(1, 4096 / form.count()),
                     [&](int64_t begin, int64_t end, int) { loops.units(call, begin, end); });
}

std::string refuse_channels(const NodeSignature& node) {
  if (!cpu::has_vector_loads(node.inputs[0].dtype)) return "neither f32, bf16 nor f16";
  const bool sums = node.inputs.size() > 2;
  return sums && node.inputs[1].dtype != node.inputs[0].dtype ? "operands of different types" : "";
}

std::function<void(const KernelContext&)> make_channels(const NodeSignature& node) {
  return [node, form = channel_form(node)](const KernelContext& context) {
    const ChannelArguments call = arguments_of(node, form, context);
    if (node.outputs[0].elements() == 0) return;
    if (form.count() == 0) {  // sums of nothing
      for (size_t o = 0; o < 2; ++o) std::memset(context.outputs[o], 0, static_cast<size_t>(node.outputs[o].bytes()));
      return;
    }
    (is_rows(form) ? run_rows : run_units)(form, call, node.inputs[0].dtype, context);
  };
}

}  // namespace

void add_cpu_channel_norm(Backend& backend) {
  for (const char* op : {"channel_moments", "channel_sums"})
    cpu::add_hwy(
        backend, op, refuse_channels, [](const NodeSignature& node, int) { return make_channels(node); },
        [](const NodeSignature& node, int) { return scratch_of(channel_form(node)); });
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
