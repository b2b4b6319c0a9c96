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
using cpu::HeadLoops;

/// sums += weight * the vectors at x, of the last one the lanes of `last` alone.
template <typename T, int kCount>
HWY_INLINE void add_weighted(const T* x, float weight, hn::Mask<Df> last, int64_t lasting, Vf (&sums)[kCount]) {
  const Df d;
  const int64_t lanes = vector_lanes();
  const Vf factor = hn::Set(d, weight);
  RAMET_UNROLL
  for (int v = 0; v < kCount; ++v) {
    const T* const at = x + v * lanes;
    const Vf value = v + 1 < kCount ? LoadF32(d, at) : load_lanes(at, last, lasting);
    sums[v] = hn::MulAdd(factor, value, sums[v]);
  }
}

/// Features [first, first + count), kCount vectors of them, of what rows [begin, end) combine.
template <typename T>
struct CombineFeatures {
  template <int kCount>
  static void run(const EdgeHeads& call, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const auto last = last_features(kCount, count);
    const int64_t lasting = last_count(kCount, count);
    const T* const edges = static_cast<const T*>(call.edges) + first;
    const T* const weights = static_cast<const T*>(call.weight);
    T* const out = static_cast<T*>(call.out) + first;
    for (int64_t row = begin; row < end; ++row)
      for (int64_t head = 0; head < call.heads; ++head) {
        Vf sums[kCount];
        clear_sums(sums);
        for (int64_t e = call.ptr[row]; e < call.ptr[row + 1]; ++e)
          add_weighted(edges + e * call.width, value_at(weights + e * call.heads + head), last, lasting, sums);
        store_sums(sums, last, lasting, out + head * call.head_stride + row * call.width);
      }
  }
};

/// The same of what the edges of rows [begin, end) blend.
template <typename T>
struct BlendFeatures {
  template <int kCount>
  static void run(const EdgeHeads& call, int64_t begin, int64_t end, int64_t first, int64_t count) {
    const auto last = last_features(kCount, count);
    const int64_t lasting = last_count(kCount, count);
    const T* const rows = static_cast<const T*>(call.rows) + first;
    const T* const weights = static_cast<const T*>(call.weight);
    T* const out = static_cast<T*>(call.out) + first;
    for (int64_t row = begin; row < end; ++row)
      for (int64_t e = call.ptr[row]; e < call.ptr[row + 1]; ++e) {
        Vf sums[kCount];
        clear_sums(sums);
        for (int64_t head = 0; head < call.heads; ++head)
          add_weighted(rows + head * call.head_stride + row * call.width, value_at(weights + e * call.heads + head),
                       last, lasting, sums);
        store_sums(sums, last, lasting, out + e * call.width);
      }
  }
};

template <class Features>
void run_features(const EdgeHeads& call, int64_t begin, int64_t end) {
  each_features(call.width, [&](int64_t first, int64_t count, int64_t vectors) {
    loop_of<Features, kMostVectors>(vectors)(call, begin, end, first, count);
  });
}

/// Loops over rows of T.
template <typename T>
struct Loops {
  static void dot(const EdgeHeads& call, int64_t begin, int64_t end) {
    fold_edges<T>(
        {.ptr = call.ptr,
         .begin = begin,
         .end = end,
         .heads = call.heads,
         .size = call.width,
         .a_step = call.head_stride,
         .out = static_cast<T*>(call.out)},
        [rows = static_cast<const T*>(call.rows), edges = static_cast<const T*>(call.edges), width = call.width](
            int64_t row, int64_t edge) { return std::pair(rows + row * width, edges + edge * width); });
  }

  static constexpr HeadLoops kTable{dot, run_features<CombineFeatures<T>>, run_features<BlendFeatures<T>>};
};

}  // namespace

const cpu::HeadLoops* GetHeadLoops(DType dtype) { return table_of<Loops>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetHeadLoops);

namespace {

using cpu::EdgeHeads;
using cpu::HeadLoops;
using ops::SegmentHeadsForm;

const HeadLoops& loops_of(const NodeSignature& node) {
  return *HWY_DYNAMIC_DISPATCH(GetHeadLoops)(node.inputs[0].dtype);
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
    call.rows = cpu::rows_at(node, context, 0, b * row_elements(form));
    call.edges = cpu::rows_at(node, context, 1, b * form.edges * form.width);
    call.out = cpu::result_at(node, context, b * form.edges * form.heads);
    cpu::run_rows(context.team, form.rows, call, loops_of(node).dot);
    cpu::clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, cpu::row_bytes(node, form.heads));
  });
}

void run_combine(const NodeSignature& node, const KernelContext& context) {
  const SegmentHeadsForm form = ops::segment_combine_form(node);
  each_sample(node, form, context, [&](int64_t b, EdgeHeads call) {
    call.edges = cpu::rows_at(node, context, 0, b * form.edges * form.width);
    call.weight = cpu::rows_at(node, context, 1, b * form.edges * form.heads);
    call.out = cpu::result_at(node, context, b * row_elements(form));
    cpu::run_rows(context.team, form.rows, call, loops_of(node).combine);
  });
}

void run_blend(const NodeSignature& node, const KernelContext& context) {
  const SegmentHeadsForm form = ops::segment_blend_form(node);
  each_sample(node, form, context, [&](int64_t b, EdgeHeads call) {
    call.rows = cpu::rows_at(node, context, 0, b * row_elements(form));
    call.weight = cpu::rows_at(node, context, 1, b * form.edges * form.heads);
    call.out = cpu::result_at(node, context, b * form.edges * form.width);
    cpu::run_rows(context.team, form.rows, call, loops_of(node).blend);
    cpu::clear_tail(context.team, call.out, call.ptr, form.rows, form.edges, cpu::row_bytes(node, form.width));
  });
}

void add(Backend& backend, const std::string& op, void (*run)(const NodeSignature&, const KernelContext&)) {
  cpu::add_hwy(backend, op, cpu::refuse_edges, [run](const NodeSignature& node, int) {
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
