// Layer norm, RMS norm, softmax: rows in f32, each by one thread.

#include <algorithm>
#include <cmath>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/normalize.h"
#include "ramet/kernel/cpu/reduce.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/normalize.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::NormArguments;

/// The functions of a family for one type of row.
template <class T>
struct Loops {
  static void layer_norm(const NormArguments& call, int64_t begin, int64_t end) {
    const Df d;
    const auto width_f = static_cast<float>(call.width);
    for (int64_t row = begin; row < end; ++row) {
      const T* a = static_cast<const T*>(call.a) + row * call.width;
      T* out = static_cast<T*>(call.out) + row * call.width;
      RowLanes sums(0);
      for_each_vector(call.width,
                      [&](int64_t i, int64_t v, int64_t count) HWY_ATTR { sums.add(v, load_part(a + i, count)); });
      const float mean = sums.sum() / width_f;
      const Vf center = hn::Set(d, mean);
      RowLanes squares(0);
      for_each_vector(call.width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        const Vf off = keep_part(hn::Sub(load_part(a + i, count), center), count);
        squares.lane[v] = hn::MulAdd(off, off, squares.lane[v]);
      });
      const float rstd = 1.0f / std::sqrt(squares.sum() / width_f + call.epsilon);
      const Vf scale = hn::Set(d, rstd);
      for_each_vector(call.width, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        const Vf normal = hn::Mul(hn::Sub(load_part(a + i, count), center), scale);
        store_part(hn::MulAdd(normal, load_part(call.gain + i, count), load_part(call.bias + i, count)), out + i,
                   count);
      });
      call.mean[row] = mean;
      call.rstd[row] = rstd;
    }
  }

  static void rms_norm(const NormArguments& call, int64_t begin, int64_t end) {
    const Df d;
    for (int64_t row = begin; row < end; ++row) {
      const T* a = static_cast<const T*>(call.a) + row * call.width;
      T* out = static_cast<T*>(call.out) + row * call.width;
      RowLanes squares(0);
      for_each_vector(call.width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        const Vf value = load_part(a + i, count);
        squares.lane[v] = hn::MulAdd(value, value, squares.lane[v]);
      });
      const float rstd = 1.0f / std::sqrt(squares.sum() / static_cast<float>(call.width) + call.epsilon);
      const Vf scale = hn::Set(d, rstd);
      for_each_vector(call.width, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        const Vf normal = hn::Mul(load_part(a + i, count), scale);
        store_part(hn::Mul(normal, load_part(call.gain + i, count)), out + i, count);
      });
      call.rstd[row] = rstd;
    }
  }

  /// Sums for gain (and bias) start with the block's first row.
  /// da = rstd (g - mean(g) - normal mean(g normal)), g = dy gain; RMS norm has no mean.
  template <bool kCentered>
  static void norm_grad(const NormArguments& call, int64_t begin, int64_t end) {
    const Df d;
    float *dgain = call.gain_sums, *dbias = call.bias_sums;
    for (int64_t index = begin; index < end; ++index) {
      const int64_t row = call.chunked.row(call.chunk, index);
      const T* dy = static_cast<const T*>(call.dy) + row * call.width;
      const T* a = static_cast<const T*>(call.a) + row * call.width;
      T* out = static_cast<T*>(call.out) + row * call.width;
      const bool first = index == begin;
      const Vf center = kCentered ? hn::Set(d, call.mean[row]) : hn::Zero(d);
      const Vf scale = hn::Set(d, call.rstd[row]);
      RowLanes sums(0), dots(0);
      for_each_vector(call.width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        const Vf slope = load_part(dy + i, count);
        const Vf normal = hn::Mul(hn::Sub(load_part(a + i, count), center), scale);
        const Vf g = hn::Mul(slope, load_part(call.gain + i, count));
        if (kCentered) sums.add(v, g);
        dots.lane[v] = hn::MulAdd(g, keep_part(normal, count), dots.lane[v]);
        const Vf term = hn::Mul(slope, normal);
        store_part(first ? term : hn::Add(load_part(dgain + i, count), term), dgain + i, count);
        if (kCentered) store_part(first ? slope : hn::Add(load_part(dbias + i, count), slope), dbias + i, count);
      });
      const float inverse = 1.0f / static_cast<float>(call.width);
      const Vf mean_g = hn::Set(d, kCentered ? sums.sum() * inverse : 0.0f),
               mean_dot = hn::Set(d, dots.sum() * inverse);
      for_each_vector(call.width, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        const Vf normal = hn::Mul(hn::Sub(load_part(a + i, count), center), scale);
        const Vf g = hn::Mul(load_part(dy + i, count), load_part(call.gain + i, count));
        const Vf rest = hn::NegMulAdd(normal, mean_dot, kCentered ? hn::Sub(g, mean_g) : g);
        store_part(hn::Mul(scale, rest), out + i, count);
      });
    }
  }

  template <bool kCentered>
  static void norm_sums(const NormArguments& call, int64_t begin, int64_t end) {
    const Df d;
    for (int64_t row = 0; row < call.chunked.rows(); ++row) {
      const T* dy = static_cast<const T*>(call.dy) + row * call.width + begin;
      const T* a = static_cast<const T*>(call.a) + row * call.width + begin;
      float *dgain = call.gain_sums + begin, *dbias = kCentered ? call.bias_sums + begin : nullptr;
      const Vf center = kCentered ? hn::Set(d, call.mean[row]) : hn::Zero(d);
      const Vf scale = hn::Set(d, call.rstd[row]);
      for_each_vector(end - begin, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        const Vf slope = load_part(dy + i, count);
        const Vf term = hn::Mul(slope, hn::Mul(hn::Sub(load_part(a + i, count), center), scale));
        store_part(row == 0 ? term : hn::Add(load_part(dgain + i, count), term), dgain + i, count);
        if (kCentered) store_part(row == 0 ? slope : hn::Add(load_part(dbias + i, count), slope), dbias + i, count);
      });
    }
  }

  template <bool kLogarithm>
  static void softmax(const NormArguments& call, int64_t begin, int64_t end) {
    const Df d;
    for (int64_t row = begin; row < end; ++row) {
      const T* a = static_cast<const T*>(call.a) + row * call.width;
      T* out = static_cast<T*>(call.out) + row * call.width;
      RowLanes most(-INFINITY);
      for_each_vector(call.width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        Vf value = load_part(a + i, count);
        if (count < vector_lanes())
          value = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count)), value, most.lane[v]);
        most.lane[v] = hn::IfThenElse(hn::Or(hn::Gt(value, most.lane[v]), hn::IsNaN(value)), value, most.lane[v]);
      });
      const float top = most.most();
      const Vf shift = hn::Set(d, top);
      RowLanes sums(0);
      for_each_vector(call.width, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        sums.add(v, keep_part(ExpNegative(d, hn::Sub(load_part(a + i, count), shift)), count));
      });
      const float sum = sums.sum();
      const Vf factor = hn::Set(d, 1.0f / sum), log_sum = Log(d, hn::Set(d, sum));
      for_each_vector(call.width, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        const Vf shifted = hn::Sub(load_part(a + i, count), shift);
        store_part(kLogarithm ? hn::Sub(shifted, log_sum) : hn::Mul(ExpNegative(d, shifted), factor), out + i, count);
      });
    }
  }

  static constexpr cpu::NormLoops kTable{layer_norm,     rms_norm,      norm_grad<true>, norm_grad<false>,
                                         softmax<false>, softmax<true>, norm_sums<true>, norm_sums<false>};
};

}  // namespace

const cpu::NormLoops* GetNormLoops(DType dtype) { return table_of<Loops>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetNormLoops);

const cpu::NormLoops& cpu::norm_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetNormLoops)(dtype);
}

namespace {

using cpu::NormArguments;

struct Rows {
  int64_t count = 0, width = 0;
};
Rows rows_of(const TensorType& type) {
  const int64_t width = type.shape.dim(-1);
  return {width == 0 ? 0 : type.elements() / width, width};
}

std::string refuse_rows(const NodeSignature& node, size_t rows, std::initializer_list<size_t> alike) {
  const DType dtype = node.inputs[rows].dtype;
  if (!cpu::has_vector_loads(dtype)) return "rows are neither f32, bf16 nor f16";
  for (size_t input : alike)
    if (node.inputs[input].dtype != dtype) return "operands of different types";
  if (node.inputs[rows].shape.dim(-1) == 0) return "rows of no elements";
  return "";
}

/// f32 vectors are read in place; others are widened to scratch, one after another.
const float* widened(const NodeSignature& node, const KernelContext& context, size_t input, float** scratch) {
  const TensorType& type = node.inputs[input];
  if (type.dtype == DType::kF32) return static_cast<const float*>(context.inputs[input]);
  float* to = *scratch;
  cpu::map_steps().load(type.dtype)(context.inputs[input], 1, type.elements(), to);
  *scratch += type.elements();
  return to;
}
int64_t widened_bytes(const NodeSignature& node, std::initializer_list<size_t> inputs) {
  int64_t bytes = 0;
  for (size_t input : inputs)
    if (node.inputs[input].dtype != DType::kF32) bytes += node.inputs[input].elements() * 4;
  return bytes;
}

/// Rows that are worth a thread's waking.
int64_t row_grain(int64_t width) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, width)); }

std::function<void(const KernelContext&)> make_norm(const NodeSignature& node, bool centered) {
  return [node, centered](const KernelContext& context) {
    const Rows rows = rows_of(node.inputs[0]);
    auto* scratch = static_cast<float*>(context.scratch);
    NormArguments call;
    call.width = rows.width;
    call.epsilon = static_cast<float>(node.attributes.get_float("epsilon"));
    call.a = context.inputs[0];
    call.out = context.outputs[0];
    call.gain = widened(node, context, 1, &scratch);
    if (centered) call.bias = widened(node, context, 2, &scratch);
    if (centered) call.mean = static_cast<float*>(context.outputs[1]);
    call.rstd = static_cast<float*>(context.outputs[centered ? 2 : 1]);
    const cpu::NormLoops& loops = cpu::norm_loops(node.inputs[0].dtype);
    const auto loop = centered ? loops.layer_norm : loops.rms_norm;
    context.team.split(rows.count, row_grain(rows.width),
                       [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  };
}

cpu::ChunkedRows chunked_rows(const NodeSignature& node) {
  const Rows rows = rows_of(node.inputs[1]);
  const int64_t extent = node.inputs[1].shape.rank() < 2 ? 1 : node.inputs[1].shape.dim(-2);
  if (extent == 0) return {0, 1, 1};
  return {rows.count / extent, extent, node.attributes.get_int_or("chunks", 1)};
}

std::function<void(const KernelContext&)> make_norm_grad(const NodeSignature& node, bool centered) {
  return [node, centered](const KernelContext& context) {
    const Rows rows = rows_of(node.inputs[1]);
    auto* scratch = static_cast<float*>(context.scratch);
    NormArguments call;
    call.width = rows.width;
    call.dy = context.inputs[0];
    call.a = context.inputs[1];
    call.out = context.outputs[0];
    call.gain = widened(node, context, 2, &scratch);
    // Statistics are only read; one set of arguments serves both directions.
    if (centered) call.mean = const_cast<float*>(static_cast<const float*>(context.inputs[3]));
    call.rstd = const_cast<float*>(static_cast<const float*>(context.inputs[centered ? 4 : 3]));
    call.chunked = chunked_rows(node);
    const int64_t chunks = call.chunked.chunks, blocks = call.chunked.blocks();
    float* gain_sums = scratch;
    float* bias_sums = scratch + chunks * blocks * rows.width;
    const cpu::NormLoops& loops = cpu::norm_loops(node.inputs[1].dtype);
    const auto loop = centered ? loops.layer_norm_grad : loops.rms_norm_grad;
    const bool in_order = rows.count > 0 && node.attributes.get_bool_or("in_order", false);
    if (in_order) {
      // Threads share columns. This runs before the gradient of rows is written, because that may overwrite the values
      // read here.
      NormArguments sums_call = call;
      sums_call.gain_sums = static_cast<float*>(context.outputs[1]);
      if (centered) sums_call.bias_sums = static_cast<float*>(context.outputs[2]);
      const auto sums = centered ? loops.layer_norm_sums : loops.rms_norm_sums;
      context.team.split((rows.width + 63) / 64, 1, [&](int64_t begin, int64_t end, int) {
        sums(sums_call, begin * 64, std::min(rows.width, end * 64));
      });
    }
    context.team.split(chunks * blocks, 1, [&](int64_t begin, int64_t end, int) {
      NormArguments block_call = call;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % blocks * kReduceRows;
        block_call.chunk = task / blocks;
        block_call.gain_sums = gain_sums + task * rows.width;
        block_call.bias_sums = bias_sums + task * rows.width;
        loop(block_call, first, std::min(call.chunked.rows(), first + kReduceRows));
      }
    });
    if (in_order) return;
    const cpu::StoreFunction store = cpu::map_steps().store(DType::kF32);
    const auto combine = [&](float* sums, void* output) {
      cpu::combine_row_sums(sums, blocks, rows.width, store, 4, output, context.team, chunks);
    };
    combine(gain_sums, context.outputs[1]);
    if (centered) combine(bias_sums, context.outputs[2]);
  };
}

int64_t norm_grad_scratch(const NodeSignature& node, bool centered) {
  const Rows rows = rows_of(node.inputs[1]);
  const cpu::ChunkedRows chunked = chunked_rows(node);
  return widened_bytes(node, {2}) + chunked.chunks * chunked.blocks() * rows.width * (centered ? 8 : 4);
}

std::string refuse_softmax(const NodeSignature& node) {
  const int rank = node.inputs[0].shape.rank();
  if (normalize_axis(node.attributes.get_int("axis"), rank, node.text()) != rank - 1)
    return "not over the last dimension";
  return refuse_rows(node, 0, {});
}

std::function<void(const KernelContext&)> make_softmax(const NodeSignature& node, bool logarithm) {
  return [node, logarithm](const KernelContext& context) {
    const Rows rows = rows_of(node.inputs[0]);
    NormArguments call;
    call.width = rows.width;
    call.a = context.inputs[0];
    call.out = context.outputs[0];
    const cpu::NormLoops& loops = cpu::norm_loops(node.inputs[0].dtype);
    const auto loop = logarithm ? loops.log_softmax : loops.softmax;
    context.team.split(rows.count, row_grain(rows.width),
                       [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  };
}

}  // namespace

void add_cpu_normalize(Backend& backend) {
  for (const bool centered : {true, false}) {
    cpu::add_hwy(
        backend, centered ? "layer_norm" : "rms_norm",
        [](const NodeSignature& node) { return refuse_rows(node, 0, {}); },
        [=](const NodeSignature& node, int) { return make_norm(node, centered); },
        [=](const NodeSignature& node, int) {
          return centered ? widened_bytes(node, {1, 2}) : widened_bytes(node, {1});
        },
        {{0, 0}});
    cpu::add_hwy(
        backend, centered ? "layer_norm_grad" : "rms_norm_grad",
        [](const NodeSignature& node) { return refuse_rows(node, 1, {0}); },
        [=](const NodeSignature& node, int) { return make_norm_grad(node, centered); },
        [=](const NodeSignature& node, int) { return norm_grad_scratch(node, centered); }, {{0, 0}, {1, 0}});
    const bool logarithm = !centered;
    cpu::add_hwy(backend, logarithm ? "log_softmax" : "softmax", refuse_softmax,
                 [=](const NodeSignature& node, int) { return make_softmax(node, logarithm); }, {}, {{0, 0}});
  }
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
