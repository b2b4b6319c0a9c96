// Reductions over any axes, in the orders of ops/reduce_order.h.

#include "ramet/kernel/cpu/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/reduce_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/reduce.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"
#include "ramet/kernel/cpu/square-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr float kNothing = -0.0f;  ///< joined with x: x
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Add(a, b);
  }
  static float one(float a, float b) { return a + b; }
};
struct Product {
  static constexpr float kNothing = 1.0f;  ///< joined with x: x
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::Mul(a, b);
  }
  static float one(float a, float b) { return a * b; }
};
struct Most {
  static constexpr float kNothing = -INFINITY;  ///< joined with x: x
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
  static float one(float a, float b) { return a > b || a != a ? a : b; }
};
struct Least {
  static constexpr float kNothing = INFINITY;  ///< joined with x: x
  template <class V>
  static HWY_INLINE V join(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
  static float one(float a, float b) { return a < b || a != a ? a : b; }
};

template <class Op>
void each(const float* from, int64_t count, float* into) {
  const Df d;
  const int64_t step = vector_lanes();
  int64_t i = 0;
  for (; i + step <= count; i += step)
    hn::StoreU(Op::join(hn::LoadU(d, into + i), hn::LoadU(d, from + i)), d, into + i);
  for (; i < count; ++i) into[i] = Op::one(into[i], from[i]);
}

template <class Op>
void lanes(const float* from, int64_t count, float* into) {
  const Df d;
  constexpr int64_t kVectors = kReduceLanes / static_cast<int64_t>(hn::MaxLanes(Df()));
  Vf lane[kVectors];
  const int64_t step = vector_lanes(), whole = count / kReduceLanes * kReduceLanes;
  for (int64_t v = 0; v < kVectors; ++v) lane[v] = hn::LoadU(d, into + v * step);
  for (int64_t i = 0; i < whole; i += kReduceLanes)
    for (int64_t v = 0; v < kVectors; ++v) lane[v] = Op::join(lane[v], hn::LoadU(d, from + i + v * step));
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(lane[v], d, into + v * step);
  for (int64_t i = whole; i < count; ++i) into[i - whole] = Op::one(into[i - whole], from[i]);
}

template <class Op>
void chains(const float* from, int64_t stride, int64_t columns, bool begins, float* into) {
  if (begins) std::fill_n(into, cpu::Join::kLines, Op::kNothing);
  int64_t column = 0;
#if HWY_TARGET != HWY_SCALAR
  // Squares of 4 lines and columns are turned on the way, for all lines at once: the chains do not wait for each other.
  const hn::Full128<float> d;
  constexpr int kSquares = cpu::Join::kLines / 4;
  hn::Vec<decltype(d)> chain[kSquares];
  RAMET_UNROLL
  for (int s = 0; s < kSquares; ++s) chain[s] = hn::LoadU(d, into + 4 * s);
  for (; column + 4 <= columns; column += 4) {
    RAMET_UNROLL
    for (int s = 0; s < kSquares; ++s) {
      const float* square = from + 4 * s * stride + column;
      hn::Vec<decltype(d)> turned[4];
      RAMET_UNROLL
      for (int r = 0; r < 4; ++r) turned[r] = hn::LoadU(d, square + r * stride);
      turn_square(d, turned);
      RAMET_UNROLL
      for (int r = 0; r < 4; ++r) chain[s] = Op::join(chain[s], turned[r]);
    }
  }
  RAMET_UNROLL
  for (int s = 0; s < kSquares; ++s) hn::StoreU(chain[s], d, into + 4 * s);
#endif
  for (; column < columns; ++column)
    for (int64_t line = 0; line < cpu::Join::kLines; ++line)
      into[line] = Op::one(into[line], from[line * stride + column]);
}

template <class Op>
constexpr cpu::Join make_join(float start) {
  return {each<Op>, lanes<Op>, chains<Op>, Op::one, start};
}

constexpr cpu::Join kJoins[] = {make_join<Sum>(0), make_join<Product>(1), make_join<Most>(-INFINITY),
                                make_join<Least>(INFINITY)};

}  // namespace

const cpu::Join* GetJoins() { return kJoins; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetJoins);

namespace cpu {

const Join& join_of(const char* op) {
  static const Join* const joins = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetJoins)());
  constexpr std::string_view kNames[] = {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"};
  for (size_t i = 0; i < 4; ++i)
    if (kNames[i] == op) return joins[i];
  internal_error("join_of", std::string("no join for ") + op);
}

void combine_tree(const Join& join, float* rows, int64_t count, int64_t distance, int64_t begin, int64_t end) {
  // Neighbours at growing strides meet as the recursion of tree_combine pairs them.
  for (int64_t stride = 1; stride < count; stride *= 2)
    for (int64_t i = 0; i + stride < count; i += 2 * stride)
      join.each(rows + (i + stride) * distance + begin, end - begin, rows + i * distance + begin);
}

void combine_row_sums(float* sums, int64_t blocks, int64_t columns, StoreFunction store, int64_t size, void* output,
                      ThreadTeam& team, int64_t chunks) {
  if (blocks == 0) {
    std::memset(output, 0, static_cast<size_t>(columns * size));
    return;
  }
  const Join& join = join_of("reduce_sum");
  team.split(columns, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      combine_tree(join, sums + chunk * blocks * columns, blocks, columns, begin, end);
    combine_tree(join, sums, chunks, blocks * columns, begin, end);
    store(sums + begin, end - begin, static_cast<char*>(output) + begin * size);
  });
}

}  // namespace cpu

namespace {

constexpr int64_t kRoom = 1024;  ///< floats that a thread widens at a time

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One pass: [outer, reduced rows, inner] of `dtype` to f32 [outer, inner].
struct Pass {
  ReduceGroup group;
  int64_t chunks = 1;
  DType dtype = DType::kF32;
  bool in_order = false;

  cpu::ChunkedRows chunked() const {
    return {group.extent == 0 ? 0 : group.reduced / group.extent, group.extent, chunks};
  }
  int64_t rows() const { return group.reduced / chunks; }              ///< of a chunk
  int64_t blocks() const { return ceil_divide(rows(), kReduceRows); }  ///< of a chunk
  bool is_last() const { return group.last; }
  int64_t results() const { return group.outer * group.inner; }
  int64_t partials() const { return group.outer * chunks * (is_last() ? 1 : blocks() * group.inner); }
};

std::vector<Pass> passes_of(const NodeSignature& node) {
  std::vector<Pass> passes;
  for (const ReduceGroup& group : reduce_groups(node.inputs[0].shape, reduce_axes(node)))
    passes.push_back({group, node.attributes.get_int_or("chunks", 1),
                      passes.empty() ? node.inputs[0].dtype : DType::kF32,
                      node.attributes.get_bool_or("in_order", false)});
  return passes;
}

class Reduction {
 public:
  Reduction(const cpu::Join& join, const Pass& pass, const void* from, float* partials, float* rooms, ThreadTeam& team)
      : join_(join),
        pass_(pass),
        from_(static_cast<const char*>(from)),
        partials_(partials),
        rooms_(rooms),
        team_(team) {}

  void run(float* results) {
    if (pass_.results() == 0) return;
    if (pass_.group.reduced == 0) return std::fill_n(results, pass_.results(), join_.start), void();
    if (pass_.in_order && pass_.group.inner == 1)
      reduce_lines_in_order(results);
    else if (pass_.in_order)
      reduce_in_order(results);
    else if (pass_.is_last())
      reduce_last(results);
    else
      reduce_rows(results);
  }

 private:
  const float* read(int64_t first, int64_t count, int rank) const {
    const char* at = from_ + first * static_cast<int64_t>(size_of(pass_.dtype));
    if (pass_.dtype == DType::kF32) return reinterpret_cast<const float*>(at);
    float* room = rooms_ + rank * kRoom;
    cpu::map_steps().load(pass_.dtype)(at, 1, count, room);
    return room;
  }

  /// Threads share lines; each goes through the columns of some at once.
  void reduce_lines_in_order(float* results) {
    constexpr int64_t kLines = cpu::Join::kLines, kColumns = kRoom / kLines;
    const int64_t width = pass_.group.reduced, lines = pass_.group.outer;
    const auto widen = cpu::map_steps().load(pass_.dtype);
    const auto size = static_cast<int64_t>(size_of(pass_.dtype));
    team_.split(ceil_divide(lines, kLines), std::max<int64_t>(1, 256 / width),
                [&](int64_t begin, int64_t end, int rank) {
                  float* room = rooms_ + rank * kRoom;
                  for (int64_t first = begin * kLines; first < std::min(lines, end * kLines); first += kLines) {
                    const int64_t count = std::min(kLines, lines - first);
                    float chain[kLines];
                    for (int64_t column = 0; column < width; column += kColumns) {
                      const int64_t some = std::min(kColumns, width - column);
                      if (count < kLines) std::fill_n(room, kRoom, 0.0f);
                      for (int64_t line = 0; line < count; ++line)
                        widen(from_ + ((first + line) * width + column) * size, 1, some, room + line * kColumns);
                      join_.chains(room, kColumns, some, column == 0, chain);
                    }
                    std::copy_n(chain, count, results + first);
                  }
                });
  }

  /// Threads share columns; each goes through the rows.
  void reduce_in_order(float* results) {
    constexpr int64_t kColumns = 256;
    const int64_t inner = pass_.group.inner, parts = ceil_divide(inner, kColumns), rows = pass_.group.reduced;
    team_.split(pass_.group.outer * parts, std::max<int64_t>(1, 16 / rows), [&](int64_t begin, int64_t end, int rank) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t outer = task / parts, from = task % parts * kColumns, count = std::min(kColumns, inner - from);
        float* sums = results + outer * inner + from;
        std::copy_n(read(outer * rows * inner + from, count, rank), count, sums);
        for (int64_t row = 1; row < rows; ++row)
          join_.each(read((outer * rows + row) * inner + from, count, rank), count, sums);
      }
    });
  }

  void reduce_last(float* results) {
    const int64_t width = pass_.rows(), lines = pass_.group.outer * pass_.chunks;
    team_.split(lines, std::max<int64_t>(1, 4096 / width), [&](int64_t begin, int64_t end, int rank) {
      for (int64_t line = begin; line < end; ++line) {
        float lanes[kReduceLanes];
        std::fill_n(lanes, kReduceLanes, join_.start);
        for (int64_t i = 0; i < width; i += kRoom) {
          const int64_t count = std::min(kRoom, width - i);
          join_.lanes(read(line * width + i, count, rank), count, lanes);
        }
        for (int64_t step = kReduceLanes / 2; step > 0; step /= 2)
          for (int64_t i = 0; i < step; ++i) lanes[i] = join_.one(lanes[i], lanes[i + step]);
        partials_[line] = lanes[0];
      }
    });
    for (int64_t outer = 0; outer < pass_.group.outer; ++outer) {
      cpu::combine_tree(join_, partials_ + outer * pass_.chunks, pass_.chunks, 1, 0, 1);
      results[outer] = partials_[outer * pass_.chunks];
    }
  }

  void reduce_rows(float* results) {
    const int64_t inner = pass_.group.inner, blocks = pass_.blocks(), rows = pass_.rows();
    const int64_t tasks = pass_.group.outer * pass_.chunks * blocks;
    team_.split(tasks, std::max<int64_t>(1, 4096 / (inner * std::min(rows, kReduceRows))),
                [&](int64_t begin, int64_t end, int rank) {
                  for (int64_t task = begin; task < end; ++task) {
                    const int64_t first = task % blocks * kReduceRows, last = std::min(rows, first + kReduceRows);
                    reduce_block(task / blocks, first, last, partials_ + task * inner, rank);
                  }
                });
    const int64_t parts = ceil_divide(inner, kRoom);
    team_.split(pass_.group.outer * parts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t outer = task / parts, from = task % parts * kRoom, to = std::min(inner, from + kRoom);
        float* sums = partials_ + outer * pass_.chunks * blocks * inner;
        for (int64_t chunk = 0; chunk < pass_.chunks; ++chunk)
          cpu::combine_tree(join_, sums + chunk * blocks * inner, blocks, inner, from, to);
        cpu::combine_tree(join_, sums, pass_.chunks, blocks * inner, from, to);
        std::copy(sums + from, sums + to, results + outer * inner + from);
      }
    });
  }

  /// Rows [first, last) of a chunk in order, starting from the first row's values.
  void reduce_block(int64_t outer_chunk, int64_t first, int64_t last, float* sums, int rank) {
    const int64_t inner = pass_.group.inner, outer = outer_chunk / pass_.chunks, chunk = outer_chunk % pass_.chunks;
    const cpu::ChunkedRows chunked = pass_.chunked();
    for (int64_t index = first; index < last; ++index) {
      const int64_t row = outer * pass_.group.reduced + chunked.row(chunk, index);
      for (int64_t i = 0; i < inner; i += kRoom) {
        const int64_t count = std::min(kRoom, inner - i);
        const float* values = read(row * inner + i, count, rank);
        if (index == first)
          std::copy_n(values, count, sums + i);
        else
          join_.each(values, count, sums + i);
      }
    }
  }

  const cpu::Join& join_;
  const Pass& pass_;
  const char* from_;
  float* partials_;
  float* rooms_;
  ThreadTeam& team_;
};

int64_t scratch_floats(const NodeSignature& node, int threads) {
  int64_t floats = threads * kRoom;
  for (const Pass& pass : passes_of(node)) floats += pass.partials() + pass.results();
  return floats;
}

std::string refuse(const NodeSignature& node) {
  if (!is_floating(node.inputs[0].dtype)) return "integers";
  return reduce_axes(node).empty() ? "no axes" : "";
}

}  // namespace

void add_cpu_reduce(Backend& backend) {
  for (const char* op : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"})
    cpu::add_hwy(
        backend, op, refuse,
        [op](const NodeSignature& node, int) {
          return [op, node, passes = passes_of(node)](const KernelContext& context) {
            auto* rooms = static_cast<float*>(context.scratch);
            float* free = rooms + context.team.size() * kRoom;
            const void* from = context.inputs[0];
            const DType out = node.outputs[0].dtype;
            for (size_t i = 0; i < passes.size(); ++i) {
              float* partials = free;
              float* results = partials + passes[i].partials();
              free = results + passes[i].results();
              if (i + 1 == passes.size() && out == DType::kF32) results = static_cast<float*>(context.outputs[0]);
              Reduction(cpu::join_of(op), passes[i], from, partials, rooms, context.team).run(results);
              from = results;
            }
            if (out != DType::kF32) cpu::map_steps().store(out)(from, node.outputs[0].elements(), context.outputs[0]);
          };
        },
        [](const NodeSignature& node, int threads) { return scratch_floats(node, threads) * 4; });
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
