// Heads over the edges of rows (ops/segment_heads.h). Features lie along vectors; sums over edges and heads follow one
// another, and products sum in 16 strided lanes. So neither the width of vectors nor threads change a bit.

#include "ramet/ops/segment_heads.h"

#include <utility>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/neighbors.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/kernel/cpu/unroll.h"
#include "ramet/ops/neighbors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/segment_heads.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/feature_sums-inl.h"
#include "ramet/kernel/cpu/product_folds-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::EdgeHeads;

/// sums += weight * the vectors at x, of the last one the lanes of `last` alone.
template <int kCount>
HWY_INLINE void add_weighted(const float* x, float weight, hn::Mask<Df> last, Vf (&sums)[kCount]) {
  const Df d;
  const int64_t lanes = vector_lanes();
  const Vf factor = hn::Set(d, weight);
  RAMET_UNROLL
  for (int v = 0; v < kCount; ++v) {
    const Vf value = v + 1 < kCount ? hn::LoadU(d, x + v * lanes) : hn::MaskedLoad(last, d, x + v * lanes);
    sums[v] = hn::MulAdd(factor, value, sums[v]);
  }
}

/// Features [first, first + count), kCount vectors of them, of what rows [begin, end) combine.
struct CombineFeatures {
  template <int kCount>
  static void run(const EdgeHeads& call, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const auto last = last_features(kCount, count);
    for (int64_t row = begin; row < end; ++row)
      for (int64_t head = 0; head < call.heads; ++head) {
        Vf sums[kCount];
        clear_sums(sums);
        for (int64_t e = call.ptr[row]; e < call.ptr[row + 1]; ++e)
          add_weighted(call.edges + e * call.width + first, call.weight[e * call.heads + head], last, sums);
        store_sums(sums, last, call.out + head * call.head_stride + row * call.width + first);
      }
  }
};

/// The same of what the edges of rows [begin, end) blend.
struct BlendFeatures {
  template <int kCount>
  static void run(const EdgeHeads& call, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const auto last = last_features(kCount, count);
    for (int64_t row = begin; row < end; ++row)
      for (int64_t e = call.ptr[row]; e < call.ptr[row + 1]; ++e) {
        Vf sums[kCount];
        clear_sums(sums);
        for (int64_t head = 0; head < call.heads; ++head)
          add_weighted(call.rows + head * call.head_stride + row * call.width + first,
                       call.weight[e * call.heads + head], last, sums);
        store_sums(sums, last, call.out + e * call.width + first);
      }
  }
};

template <class Loops>
void run_features(const EdgeHeads& call, int64_t begin, int64_t end) {
  each_features(call.width, [&](int64_t first, int64_t count, int64_t vectors) {
    loop_of<Loops, kMostVectors>(vectors)(call, begin, end, first, count);
  });
}

}  // namespace

void DotHeads(const EdgeHeads& call, int64_t begin, int64_t end) {
  fold_edges({.ptr = call.ptr,
              .begin = begin,
              .end = end,
              .heads = call.heads,
              .size = call.width,
              .a_step = call.head_stride,
              .out = call.out},
             [rows = call.rows, edges = call.edges, width = call.width](int64_t row, int64_t edge) {
               return std::pair(rows + row * width, edges + edge * width);
             });
}

void CombineHeads(const EdgeHeads& call, int64_t begin, int64_t end) {
  run_features<CombineFeatures>(call, begin, end);
}

void BlendHeads(const EdgeHeads& call, int64_t begin, int64_t end) { run_features<BlendFeatures>(call, begin, end); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(DotHeads);
HWY_EXPORT(CombineHeads);
HWY_EXPORT(BlendHeads);

namespace {

using cpu::EdgeHeads;
using ops::SegmentHeadsForm;

const float* floats(const KernelContext& context, size_t input, int64_t sample, int64_t elements) {
  return static_cast<const float*>(context.inputs[input]) + sample * elements;
}
float* result(const KernelContext& context, int64_t sample, int64_t elements) {
  return static_cast<float*>(context.outputs[0]) + sample * elements;
}

/// Calls `run` for each sample, with the operands that all three ops have.
template <typename Run>
void each_sample(const NodeSignature& node, const SegmentHeadsForm& form, const KernelContext& context,
                 const Run& run) {
  const auto* const ptr = static_cast<const int32_t*>(context.inputs[2]);
  ops::check_segments(node, ptr, form.batch, form.rows, form.edges);
  for (int64_t b = 0; b < form.batch; ++b)
    run(b, EdgeHeads{.heads = form.heads,
                     .width = form.width,
                     .head_stride = form.rows * form.width,
                     .ptr = ptr + b * (form.rows + 1)});
}

int64_t row_elements(const SegmentHeadsForm& form) { return form.heads * form.rows * form.width; }

void run_dot(const NodeSignature& node, const KernelContext& context) {
  const SegmentHeadsForm form = ops::segment_dot_form(node);
  each_sample(node, form, context, [&](int64_t b, EdgeHeads call) {
    call.rows = floats(context, 0, b, row_elements(form));
    call.edges = floats(context, 1, b, form.edges * form.width);
    call.out = result(context, b, form.edges * form.heads);
    cpu::split_rows(context.team, call.ptr, form.rows,
                    [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(DotHeads)(call, begin, end); });
    cpu::clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, form.heads);
  });
}

void run_combine(const NodeSignature& node, const KernelContext& context) {
  const SegmentHeadsForm form = ops::segment_combine_form(node);
  each_sample(node, form, context, [&](int64_t b, EdgeHeads call) {
    call.edges = floats(context, 0, b, form.edges * form.width);
    call.weight = floats(context, 1, b, form.edges * form.heads);
    call.out = result(context, b, row_elements(form));
    cpu::split_rows(context.team, call.ptr, form.rows,
                    [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(CombineHeads)(call, begin, end); });
  });
}

void run_blend(const NodeSignature& node, const KernelContext& context) {
  const SegmentHeadsForm form = ops::segment_blend_form(node);
  each_sample(node, form, context, [&](int64_t b, EdgeHeads call) {
    call.rows = floats(context, 0, b, row_elements(form));
    call.weight = floats(context, 1, b, form.edges * form.heads);
    call.out = result(context, b, form.edges * form.width);
    cpu::split_rows(context.team, call.ptr, form.rows,
                    [&](int64_t begin, int64_t end) { HWY_DYNAMIC_DISPATCH(BlendHeads)(call, begin, end); });
    cpu::clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, form.width);
  });
}

void add(Backend& backend, const std::string& op, void (*run)(const NodeSignature&, const KernelContext&)) {
  cpu::add_hwy(
      backend, op,
      [](const NodeSignature& node) { return node.inputs[0].dtype == DType::kF32 ? "" : "it computes f32"; },
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [node, run](const KernelContext& context) { run(node, context); };
      });
}

}  // namespace

void add_cpu_segment_heads(Backend& backend) {
  add(backend, "segment_dot", run_dot);
  add(backend, "segment_combine", run_combine);
  add(backend, "segment_blend", run_blend);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
