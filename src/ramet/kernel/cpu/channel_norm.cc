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
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/channels-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

#ifndef RAMET_CHANNEL_NORM_ONCE
#define RAMET_CHANNEL_NORM_ONCE
namespace ramet::kernel::cpu {

/// Blocks of one piece: a power of two, so that pieces are whole branches of the tree of all blocks.
constexpr int64_t kSuperBlocks = 16;
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
  /// kVectors vectors of channels of `rows` rows.
  template <int kVectors>
  static HWY_INLINE void moments_block(const ChannelArguments& call, const float* shifts, int64_t at, int64_t rows,
                                       int64_t count, float* mean, float* squares) {
    const Df d;
    const T* a = static_cast<const T*>(call.a) + at;
    const Vf elements = hn::Set(d, static_cast<float>(rows));
    Vf sum[kVectors], shift[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d), shift[v] = hn::LoadU(d, shifts + v * vector_lanes());
    for (int64_t row = 0; row < rows; ++row)
      for (int v = 0; v < kVectors; ++v) {
        const Vf value = load<kVectors>(a + row * call.channels, v, count, call.a_end);
        sum[v] = hn::Add(sum[v], hn::Sub(value, shift[v]));
      }
    Vf square[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Div(sum[v], elements), square[v] = hn::Zero(d);
    for (int64_t row = 0; row < rows; ++row)
      for (int v = 0; v < kVectors; ++v) {
        const Vf value = load<kVectors>(a + row * call.channels, v, count, call.a_end);
        const Vf off = hn::Sub(hn::Sub(value, shift[v]), sum[v]);
        square[v] = hn::MulAdd(off, off, square[v]);
      }
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[v], d, mean + v * vector_lanes());
      hn::StoreU(square[v], d, squares + v * vector_lanes());
    }
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

  static float first_of(const T* a) { return hn::GetLane(LoadF32N(Df(), a, 1)); }

  static void pieces(const ChannelArguments& call, int64_t begin, int64_t end) {
    Tile stack[6] = {};  // a piece of 16 blocks has at most 5 unfinished branches
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t channel = piece % call.tiles * kChannelTile, super = piece / call.tiles % call.supers;
      const int64_t segment = piece / (call.tiles * call.supers);
      float shifts[kChannelTile] = {};
      if (call.moments) {
        const T* row = static_cast<const T*>(call.a) + segment * call.rows * call.channels;
        for (int64_t c = channel; c < std::min(call.channels, channel + kChannelTile); ++c)
          shifts[c - channel] = first_of(row + c / call.neighbours * call.neighbours);
      }
      const int64_t from = super * cpu::kSuperRows, to = std::min(call.rows, from + cpu::kSuperRows);
      cpu::walk_tree((to - from + kMomentRows - 1) / kMomentRows,
                     [&](int64_t i, int depth) {
                       const int64_t row = from + i * kMomentRows;
                       block(call, segment, row, std::min(kMomentRows, to - row), channel, shifts, stack[depth]);
                     },
                     [&](int depth) {
                       Tile &left = stack[depth], &right = stack[depth + 1];
                       join_tiles(call.moments, left.first, left.second, left.count, right.first, right.second,
                                  right.count);
                       left.count += right.count;
                     });
      float* made = call.pieces + piece * 2 * kChannelTile;
      std::memcpy(made, stack[0].first, sizeof stack[0].first);
      std::memcpy(made + kChannelTile, stack[0].second, sizeof stack[0].second);
    }
  }

  static void combine(const ChannelArguments& call, int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t segment = index / call.tiles, tile = index % call.tiles;
      float* places[64];
      double counts[64];
      cpu::walk_tree(
          call.supers,
          [&](int64_t super, int depth) {
            places[depth] = call.pieces + ((segment * call.supers + super) * call.tiles + tile) * 2 * kChannelTile;
            counts[depth] = static_cast<double>(std::min(cpu::kSuperRows, call.rows - super * cpu::kSuperRows));
          },
          [&](int depth) {
            float *left = places[depth], *right = places[depth + 1];
            join_tiles(call.moments, left, left + kChannelTile, counts[depth], right, right + kChannelTile,
                       counts[depth + 1]);
            counts[depth] += counts[depth + 1];
          });
    }
  }

  /// Of moments without the first element, `center`, which keeps numbers far from zero accurate; of sums about the
  /// mean. `pieces` runs of `length` elements at distance `stride`, from element `at` on.
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
        if (call.moments) return sums.add(v, off);
        const Vf slope = load_part(dy + from, part);
        sums.add(v, slope);
        products.lane[v] = hn::MulAdd(slope, off, products.lane[v]);
      });
    if (!call.moments) return {sums.sum(), products.sum(), count};
    const float mean = sums.sum() / static_cast<float>(count);
    const Vf middle = hn::Set(d, mean);
    for (int64_t piece = 0; piece < pieces; ++piece)
      for_each_vector(length, [&](int64_t i, int64_t v, int64_t part) HWY_ATTR {
        const Vf value = hn::Sub(load_part(a + piece * stride + i, part), center);
        const Vf off = keep_part(hn::Sub(value, middle), part);
        products.lane[v] = hn::MulAdd(off, off, products.lane[v]);
      });
    return {mean, products.sum(), count};
  }

  static void units(const ChannelArguments& call, int64_t begin, int64_t end) {
    // Short runs share a block; long ones are several.
    const bool share = call.run <= kMomentSpan / 2;
    const int64_t together = share ? kMomentSpan / call.run : 1;
    const int64_t spans = share ? 1 : (call.run + kMomentSpan - 1) / kMomentSpan;
    const int64_t blocks = share ? (call.runs + together - 1) / together : call.runs * spans;
    Pair stack[64];
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* start = static_cast<const T*>(call.a) + unit * call.unit_stride;
      const float center = call.moments ? first_of(start) : call.mean[unit % call.means];
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

  static constexpr cpu::ChannelLoops kTable{pieces, combine, units};
};

}  // namespace

const cpu::ChannelLoops* GetChannelLoops(DType dtype) {
  if (dtype == DType::kF32) return &Loops<float>::kTable;
  return dtype == DType::kBF16 ? &Loops<Bf16>::kTable : &Loops<F16>::kTable;
}

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
  return is_rows(form) ? segments_of(form) * supers_of(form) * tiles_of(form) * 2 * kChannelTile * 4 : 0;
}

ChannelArguments arguments_of(const NodeSignature& node, const KernelContext& context) {
  ChannelArguments call;
  call.moments = node.inputs.size() == 1;
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
void write_sums(const ChannelForm& form, const ChannelArguments& call, DType dtype, int64_t segment) {
  const auto number = [&](int64_t channel, int which) {
    const int64_t piece = segment * call.supers * call.tiles + channel / kChannelTile;
    return call.pieces[(piece * 2 + which) * kChannelTile + channel % kChannelTile];
  };
  struct Moments {
    double count;
    float mean, squares;
  };
  const int64_t neighbours = form.channels / form.sums();
  for (int64_t sum = 0; sum < form.sums(); ++sum) {
    const Moments all = tree_combine<Moments>(
        sum * neighbours, neighbours,
        [&](int64_t channel) {
          return Moments{static_cast<double>(call.rows), number(channel, 0), number(channel, 1)};
        },
        [](const Moments& a, const Moments& b) {
          const cpu::MomentShares shares(a.count, b.count);
          const float off = b.mean - a.mean;
          return Moments{a.count + b.count, a.mean + off * shares.share,
                         a.squares + b.squares + off * off * shares.weight};
        });
    const int64_t lead = segment * call.rows * form.channels + sum * neighbours;
    const float shift = call.moments ? static_cast<float>(load_element(call.a, dtype, lead)) : 0.0f;
    call.first[segment * form.sums() + sum] = call.moments ? shift + all.mean : all.mean;
    call.second[segment * form.sums() + sum] = call.moments ? all.squares / static_cast<float>(all.count) : all.squares;
  }
}

void run_rows(const ChannelForm& form, ChannelArguments call, DType dtype, const KernelContext& context) {
  const cpu::ChannelLoops& loops = cpu::channel_loops(dtype);
  call.channels = form.channels;
  call.neighbours = form.channels / form.sums();
  call.rows = rows_of(form);
  call.supers = supers_of(form);
  call.tiles = tiles_of(form);
  call.pieces = static_cast<float*>(context.scratch);
  const int64_t segments = segments_of(form);
  const auto each = [&](int64_t count, cpu::ChannelLoops::Loop loop) {
    context.team.split(count, 1, [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  };
  each(segments * call.supers * call.tiles, loops.pieces);
  if (call.supers > 1) each(segments * call.tiles, loops.combine);
  context.team.split(segments, std::max<int64_t>(1, 4096 / form.channels), [&](int64_t begin, int64_t end, int) {
    for (int64_t segment = begin; segment < end; ++segment) write_sums(form, call, dtype, segment);
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
  for (size_t i = 0; i + 1 < node.inputs.size() || i == 0; ++i) {
    if (!cpu::has_vector_loads(node.inputs[i].dtype)) return "neither f32, bf16 nor f16";
    if (i > 0 && i < 2 && node.inputs[i].dtype != node.inputs[0].dtype) return "operands of different types";
  }
  return "";
}

std::function<void(const KernelContext&)> make_channels(const NodeSignature& node) {
  return [node, form = channel_form(node)](const KernelContext& context) {
    const ChannelArguments call = arguments_of(node, context);
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
