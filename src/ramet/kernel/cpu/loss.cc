// Cross-entropy with integer labels. A chunk of a row of logits is read from memory once: the second walk reads it from
// L2.

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/loss.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/position.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/softmax_statistics.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::JoinArguments;
using cpu::LossArguments;

template <class T>
float element(const T* row, int64_t index) {
  return hn::GetLane(LoadF32N(Df(), row + index, 1));
}

/// The first element that is `value`; `count` when there is none.
template <class T>
int64_t first_equal(const T* row, int64_t count, float value) {
  const Df d;
  const Vf wanted = hn::Set(d, value);
  for (int64_t i = 0; i < count; i += vector_lanes()) {
    const int64_t part = std::min(vector_lanes(), count - i);
    const auto mask = hn::And(hn::Eq(load_part(row + i, part), wanted), hn::FirstN(d, static_cast<size_t>(part)));
    const intptr_t lane = hn::FindFirstTrue(d, mask);
    if (lane >= 0) return i + lane;
  }
  return count;
}

float exp_negative(float x) { return hn::GetLane(ExpNegative(Df(), hn::Set(Df(), x))); }

using Sum = SoftmaxSum<float>;

Sum sum_of_row(const float* statistics, int64_t chunks) {
  return Sum::of_row(
      chunks, [statistics](int64_t chunk, int which) { return statistics[chunk * kStatistics + which]; }, exp_negative);
}

void join(const JoinArguments& call, int64_t begin, int64_t end) {
  const Df d;
  for (int64_t row = begin; row < end; ++row) {
    const float* chunks = call.statistics + row * call.chunks * kStatistics;
    const Sum all = sum_of_row(chunks, call.chunks);
    const float log_sum = hn::GetLane(Log(d, hn::Set(d, all.sum)));
    if (call.lse) call.lse[row] = all.most + log_sum;
    call.losses[row] = 0;
    call.states[row] = 0;
    bool greater_before = false;
    for (int64_t i = 0; i < call.chunks; ++i) {
      const float* chunk = chunks + i * kStatistics;
      if (chunk[kChunkLabel] != 0) {
        call.losses[row] = all.most - chunk[kChunkLogit] + log_sum;
        const bool first = chunk[kChunkLabel] == 2 && !greater_before && chunk[kChunkMost] == all.most;
        call.states[row] = first ? 2 : 1;
      }
      greater_before = greater_before || chunk[kChunkMost] == all.most;
    }
  }
}

void join_grad(const JoinArguments& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* chunks = call.statistics + row * call.chunks * kStatistics;
    float* slopes = call.slopes + row * call.chunks * kStatistics;
    const Sum all = sum_of_row(chunks, call.chunks);
    bool counted = false;
    for (int64_t i = 0; i < call.chunks; ++i) counted = counted || chunks[i * kStatistics + kChunkLabel] != 0;
    for (int64_t i = 0; i < call.chunks; ++i, chunks += kStatistics, slopes += kStatistics) {
      const float dsum = counted ? all.share(chunks[kChunkMost], exp_negative) * call.factor : 0.0f;
      const float dlogit = chunks[kChunkLabel] != 0 ? -call.factor : 0.0f;
      slopes[kChunkMost] = counted ? dsum * chunks[kChunkSum] : 0.0f;
      slopes[kChunkSum] = dsum;
      slopes[kChunkLogit] = dlogit;
      slopes[kChunkLabel] = 0;
    }
  }
}

void rows_grad(const JoinArguments& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* chunks = call.statistics + row * call.chunks * kStatistics;
    float* slopes = call.slopes + row * call.chunks * kStatistics;
    const Sum all = sum_of_row(chunks, call.chunks);
    bool counted = false;
    for (int64_t i = 0; i < call.chunks; ++i) counted = counted || chunks[i * kStatistics + kChunkLabel] != 0;
    const float slope = counted ? call.dlse[row] + call.dlosses[row] : call.dlse[row];
    for (int64_t i = 0; i < call.chunks; ++i, chunks += kStatistics, slopes += kStatistics) {
      const float dsum = slope == 0 ? 0.0f : all.share(chunks[kChunkMost], exp_negative) * slope;
      const float dlogit = chunks[kChunkLabel] != 0 ? -call.dlosses[row] : 0.0f;
      slopes[kChunkMost] = dsum * chunks[kChunkSum];
      slopes[kChunkSum] = dsum;
      slopes[kChunkLogit] = dlogit;
      slopes[kChunkLabel] = 0;
    }
  }
}

template <class T>
struct Loops {
  static void statistics(const LossArguments& call, int64_t begin, int64_t end) {
    for (int64_t task = begin * call.chunks; task < end * call.chunks; ++task) {
      const int64_t place = task % call.chunks, classes = call.classes[place];
      const int64_t label = call.labels[task / call.chunks] - place * call.width;
      const auto chunk = classes > 0 && classes <= vector_lanes() ? chunk_statistics<true> : chunk_statistics<false>;
      chunk(static_cast<const T*>(call.logits) + task * call.width, classes, label >= 0 && label < classes ? label : -1,
            call.statistics + task * kStatistics);
    }
  }

  /// for_each_vector; of a row of one vector at most, without a loop, so that its lanes stay in registers.
  template <bool kNarrow, typename Visit>
  static HWY_INLINE void walk_row(int64_t width, const Visit& visit) {
    if constexpr (kNarrow)
      visit(int64_t{0}, int64_t{0}, width);
    else
      for_each_vector(width, visit);
  }

  template <bool kNarrow>
  static void chunk_statistics(const T* logits, int64_t width, int64_t label, float* out) {
    const Df d;
    RowLanes most(-INFINITY);
    walk_row<kNarrow>(width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
      Vf value = load_part(logits + i, count);
      if (count < vector_lanes())
        value = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count)), value, most.lane[v]);
      most.lane[v] = hn::Max(most.lane[v], value);  // a NaN that this loses comes back in the sum
    });
    const float top = most.most();
    const Vf shift = hn::Set(d, top == -INFINITY ? 0.0f : top);
    RowLanes sums(0);
    walk_row<kNarrow>(width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
      sums.add(v, keep_part(ExpNegative(d, hn::Sub(load_part(logits + i, count), shift)), count));
    });
    out[kChunkMost] = top;
    out[kChunkSum] = sums.sum();
    out[kChunkLogit] = label < 0 ? 0.0f : element(logits, label);
    const bool greatest = label >= 0 && out[kChunkLogit] == top && first_equal(logits, label, top) == label;
    out[kChunkLabel] = label < 0 ? 0.0f : greatest ? 2.0f : 1.0f;
  }

  static void statistics_grad(const LossArguments& call, int64_t begin, int64_t end) {
    for (int64_t task = begin * call.chunks; task < end * call.chunks; ++task) {
      const int64_t chunk = task % call.chunks, classes = call.classes[chunk];
      const int64_t label = call.labels[task / call.chunks] - chunk * call.width;
      T* gradient = static_cast<T*>(call.gradient) + task * call.width;
      chunk_grad(static_cast<const T*>(call.logits) + task * call.width, classes,
                 label >= 0 && label < classes ? label : -1, call.statistics_in + task * kStatistics,
                 call.slopes + task * kStatistics, gradient);
      zero(gradient + classes, call.width - classes);
    }
  }

  static void zero(T* to, int64_t count) {
    for_each_vector(count,
                    [&](int64_t i, int64_t, int64_t part) HWY_ATTR { store_part(hn::Zero(Df()), to + i, part); });
  }

  static void chunk_grad(const T* logits, int64_t width, int64_t label, const float* statistics, const float* slopes,
                         T* gradient) {
    const Df d;
    const float top = statistics[kChunkMost], shift = top == -INFINITY ? 0.0f : top, dsum = slopes[kChunkSum];
    // The sum's reference moves with the greatest logit. In a gradient of cross-entropy these cancel out, exactly.
    const float rest = slopes[kChunkMost] - dsum * statistics[kChunkSum];
    const auto slope_at = [&](int64_t i)
                              HWY_ATTR { return dsum == 0 ? 0.0f : exp_negative(element(logits, i) - shift) * dsum; };
    const int64_t best = rest != 0 ? first_equal(logits, width, top) : width;
    const float at_best = best < width ? slope_at(best) + rest : 0.0f;
    const float at_label = label >= 0 ? (label == best ? at_best : slope_at(label)) + slopes[kChunkLogit] : 0.0f;
    if (dsum == 0) {
      zero(gradient, width);
    } else {
      const Vf offset = hn::Set(d, shift), factor = hn::Set(d, dsum);
      for_each_vector(width, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        store_part(hn::Mul(ExpNegative(d, hn::Sub(load_part(logits + i, count), offset)), factor), gradient + i, count);
      });
    }
    if (best < width) StoreF32N(d, hn::Set(d, at_best), gradient + best, 1);
    if (label >= 0) StoreF32N(d, hn::Set(d, at_label), gradient + label, 1);
  }

  static constexpr cpu::LossLoops kTable{statistics, statistics_grad, join, join_grad, rows_grad};
};

}  // namespace

const cpu::LossLoops* GetLossLoops(DType dtype) { return table_of<Loops>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetLossLoops);

const cpu::LossLoops& cpu::loss_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetLossLoops)(dtype);
}

namespace {

using cpu::JoinArguments;
using cpu::LossArguments;

std::string refuse(const NodeSignature& node) {
  return cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "logits are neither f32, bf16 nor f16";
}

/// Labels [rows] as local classes, -1 where the row is ignored or its label another device's.
void localize_labels(const NodeSignature& node, const Position& position, const int32_t* labels, int32_t* local) {
  const int64_t rows = node.inputs[0].shape[0], classes = class_count(node, position);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t label = labels[row];
    if (label >= classes)
      throw Error({.what = "a label is no class",
                   .where = node.text() + ", row " + std::to_string(row),
                   .found = std::to_string(label),
                   .expected = "less than " + std::to_string(classes) + ", or -1 to ignore the row"},
                  ErrorKind::kFailure);
    local[row] = -1;
    for (const Position::Run& run : position.along(1))
      if (label >= run.logical && label < run.logical + run.length)
        local[row] = static_cast<int32_t>(run.local + label - run.logical);
  }
}

/// Rows of statistics that are worth a thread's waking.
int64_t join_grain(int64_t chunks) { return std::max<int64_t>(1, 256 / chunks); }

/// Classes of each chunk of this device's logits.
std::vector<int64_t> classes_of_chunks(const NodeSignature& node, const Position& position, bool gradient) {
  const int64_t chunks = (gradient ? node.inputs[2] : node.outputs[0]).shape[1],
                width = node.inputs[0].shape[1] / chunks;
  std::vector<int64_t> classes;
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    classes.push_back(classes_of_chunk(position, class_count(node, position), chunk * width, width));
  return classes;
}

void run_statistics(const NodeSignature& node, const Position& position, const std::vector<int64_t>& classes,
                    const KernelContext& context, bool gradient) {
  const int64_t rows = node.inputs[0].shape[0], columns = node.inputs[0].shape[1];
  auto* labels = static_cast<int32_t*>(context.scratch);
  localize_labels(node, position, static_cast<const int32_t*>(context.inputs[1]), labels);
  LossArguments call;
  call.chunks = std::ssize(classes);
  call.width = columns / call.chunks;
  call.classes = classes.data();
  call.logits = context.inputs[0];
  call.labels = labels;
  if (gradient) {
    call.statistics_in = static_cast<const float*>(context.inputs[2]);
    call.slopes = static_cast<const float*>(context.inputs[3]);
    call.gradient = context.outputs[0];
  } else {
    call.statistics = static_cast<float*>(context.outputs[0]);
  }
  const cpu::LossLoops& loops = cpu::loss_loops(node.inputs[0].dtype);
  const auto loop = gradient ? loops.statistics_grad : loops.statistics;
  context.team.split(rows, std::max<int64_t>(1, 4096 / columns),
                     [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
}

void run_join(const NodeSignature& node, const KernelContext& context) {
  const int64_t rows = node.inputs[0].shape[0];
  JoinArguments call;
  call.chunks = node.inputs[0].shape[1];
  call.statistics = static_cast<const float*>(context.inputs[0]);
  call.losses = static_cast<float*>(context.scratch);
  call.states = reinterpret_cast<uint8_t*>(call.losses + rows);
  const auto loop = cpu::loss_loops(DType::kF32).join;
  context.team.split(rows, join_grain(call.chunks), [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  int64_t count = 0, correct = 0;
  for (int64_t row = 0; row < rows; ++row) {
    count += call.states[row] != 0;
    correct += call.states[row] == 2;
  }
  // In the order of sums over rows, whatever the threads.
  float sum = 0;
  if (node.attributes.get_bool_or("in_order", false))
    for (int64_t row = 0; row < rows; ++row) sum += call.losses[row];
  else
    sum = canonical_sum_rows(call.losses, rows, 1);
  *static_cast<float*>(context.outputs[0]) = count > 0 ? sum / static_cast<float>(count) : 0.0f;
  *static_cast<float*>(context.outputs[1]) = static_cast<float>(count);
  *static_cast<float*>(context.outputs[2]) = static_cast<float>(correct);
}

void run_join_grad(const NodeSignature& node, const KernelContext& context) {
  JoinArguments call;
  call.chunks = node.inputs[0].shape[1];
  call.statistics = static_cast<const float*>(context.inputs[0]);
  call.factor = *static_cast<const float*>(context.inputs[2]) / *static_cast<const float*>(context.inputs[1]);
  call.slopes = static_cast<float*>(context.outputs[0]);
  const auto loop = cpu::loss_loops(DType::kF32).join_grad;
  context.team.split(node.inputs[0].shape[0], join_grain(call.chunks),
                     [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
}

void run_rows(const NodeSignature& node, const KernelContext& context) {
  const int64_t rows = node.inputs[0].shape[0];
  JoinArguments call;
  call.chunks = node.inputs[0].shape[1];
  call.statistics = static_cast<const float*>(context.inputs[0]);
  call.lse = static_cast<float*>(context.outputs[0]);
  call.losses = static_cast<float*>(context.outputs[1]);
  call.states = static_cast<uint8_t*>(context.scratch);
  auto* counted = static_cast<float*>(context.outputs[2]);
  const auto loop = cpu::loss_loops(DType::kF32).join;
  context.team.split(rows, join_grain(call.chunks), [&](int64_t begin, int64_t end, int) {
    loop(call, begin, end);
    for (int64_t row = begin; row < end; ++row) counted[row] = call.states[row] != 0 ? 1.0f : 0.0f;
  });
}

void run_rows_grad(const NodeSignature& node, const KernelContext& context) {
  JoinArguments call;
  call.chunks = node.inputs[0].shape[1];
  call.statistics = static_cast<const float*>(context.inputs[0]);
  call.dlse = static_cast<const float*>(context.inputs[1]);
  call.dlosses = static_cast<const float*>(context.inputs[2]);
  call.slopes = static_cast<float*>(context.outputs[0]);
  const auto loop = cpu::loss_loops(DType::kF32).rows_grad;
  context.team.split(node.inputs[0].shape[0], join_grain(call.chunks),
                     [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
}

std::string refuse_nothing(const NodeSignature&) { return ""; }

}  // namespace

void add_cpu_loss(Backend& backend) {
  for (const bool gradient : {false, true})
    cpu::add_hwy(
        backend, gradient ? "softmax_statistics_grad" : "softmax_statistics", refuse,
        [gradient](const NodeSignature& node, int) {
          const Position position(node);
          return [node, gradient, position, classes = classes_of_chunks(node, position, gradient)](
                     const KernelContext& context) { run_statistics(node, position, classes, context, gradient); };
        },
        [](const NodeSignature& node, int) { return node.inputs[0].shape[0] * 4; },
        gradient ? std::vector<std::pair<int, int>>{{0, 0}} : std::vector<std::pair<int, int>>{});
  cpu::add_hwy(
      backend, "cross_entropy", refuse_nothing,
      [](const NodeSignature& node, int) { return [node](const KernelContext& context) { run_join(node, context); }; },
      [](const NodeSignature& node, int) { return node.inputs[0].shape[0] * 5; });
  cpu::add_hwy(backend, "cross_entropy_grad", refuse_nothing,
               [](const NodeSignature& node, int) {
                 return [node](const KernelContext& context) { run_join_grad(node, context); };
               },
               {}, {{0, 0}});
  cpu::add_hwy(
      backend, "cross_entropy_rows", refuse_nothing,
      [](const NodeSignature& node, int) { return [node](const KernelContext& context) { run_rows(node, context); }; },
      [](const NodeSignature& node, int) { return node.inputs[0].shape[0]; });
  cpu::add_hwy(backend, "cross_entropy_rows_grad", refuse_nothing,
               [](const NodeSignature& node, int) {
                 return [node](const KernelContext& context) { run_rows_grad(node, context); };
               },
               {}, {{0, 0}});
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
