// Cross-entropy with integer labels. A row of logits is read from memory once: what its second walk reads is still in
// L2.

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/loss.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet {
namespace HWY_NAMESPACE {
namespace {

using cpu::LossArguments;

template <class T>
float element(const T* row, int64_t index) {
  return hn::GetLane(LoadF32N(Df(), row + index, 1));
}

/// Whether an element before `label` is as great; it is known that none is greater.
template <class T>
bool has_equal_before(const T* row, int64_t label, float value) {
  const Df d;
  const Vf wanted = hn::Set(d, value);
  for (int64_t i = 0; i < label; i += vector_lanes()) {
    const int64_t count = std::min(vector_lanes(), label - i);
    const auto mask = hn::And(hn::Eq(load_part(row + i, count), wanted), hn::FirstN(d, static_cast<size_t>(count)));
    if (!hn::AllFalse(d, mask)) return true;
  }
  return false;
}

template <class T>
struct Loops {
  static void forward(const LossArguments& call, int64_t begin, int64_t end) {
    const Df d;
    for (int64_t row = begin; row < end; ++row) {
      const T* logits = static_cast<const T*>(call.logits) + row * call.classes;
      RowLanes most(-INFINITY);
      for_each_vector(call.classes, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        Vf value = load_part(logits + i, count);
        if (count < vector_lanes())
          value = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count)), value, most.lane[v]);
        most.lane[v] = hn::Max(most.lane[v], value);  // a NaN that this loses comes back in the sum
      });
      const float top = most.most();
      const Vf shift = hn::Set(d, top);
      RowLanes sums(0);
      for_each_vector(call.classes, [&](int64_t i, int64_t v, int64_t count) HWY_ATTR {
        sums.add(v, keep_part(ExpNegative(d, hn::Sub(load_part(logits + i, count), shift)), count));
      });
      const float lse = top + hn::GetLane(Log(d, hn::Set(d, sums.sum())));
      call.lse[row] = lse;
      const int64_t label = call.labels[row];
      const float logit = label < 0 ? lse : element(logits, label);
      call.losses[row] = label < 0 ? 0.0f : lse - logit;
      call.correct[row] = label >= 0 && logit == top && !has_equal_before(logits, label, top);
    }
  }

  static void backward(const LossArguments& call, int64_t begin, int64_t end) {
    const Df d;
    const Vf factor = hn::Set(d, call.factor);
    for (int64_t row = begin; row < end; ++row) {
      const T* logits = static_cast<const T*>(call.logits) + row * call.classes;
      T* gradient = static_cast<T*>(call.gradient) + row * call.classes;
      const int64_t label = call.labels[row];
      if (label < 0) {
        for_each_vector(call.classes, [&](int64_t i, int64_t, int64_t count)
                                          HWY_ATTR { store_part(hn::Zero(d), gradient + i, count); });
        continue;
      }
      const Vf shift = hn::Set(d, call.lse[row]);
      const float at_label =
          (hn::GetLane(ExpNegative(d, hn::Set(d, element(logits, label) - call.lse[row]))) - 1.0f) * call.factor;
      for_each_vector(call.classes, [&](int64_t i, int64_t, int64_t count) HWY_ATTR {
        store_part(hn::Mul(ExpNegative(d, hn::Sub(load_part(logits + i, count), shift)), factor), gradient + i, count);
      });
      StoreF32N(d, hn::Set(d, at_label), gradient + label, 1);
    }
  }

  static constexpr cpu::LossLoops kTable{forward, backward};
};

}  // namespace

const cpu::LossLoops* GetLossLoops(DType dtype) {
  if (dtype == DType::kF32) return &Loops<float>::kTable;
  return dtype == DType::kBF16 ? &Loops<Bf16>::kTable : &Loops<F16>::kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet {
HWY_EXPORT(GetLossLoops);

const cpu::LossLoops& cpu::loss_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetLossLoops)(dtype);
}

namespace {

using cpu::LossArguments;

std::string refuse(const NodeSignature& node) {
  return cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "logits are neither f32, bf16 nor f16";
}

void check_labels(const NodeSignature& node, const int32_t* labels) {
  const int64_t rows = node.inputs[0].shape[0], classes = node.inputs[0].shape[1];
  for (int64_t row = 0; row < rows; ++row)
    if (labels[row] >= classes)
      throw Error({.what = "a label is no class",
                   .where = node.text() + ", row " + std::to_string(row),
                   .found = std::to_string(labels[row]),
                   .expected = "less than " + std::to_string(classes) + ", or -1 to ignore the row"},
                  ErrorKind::kFailure);
}

void run_forward(const NodeSignature& node, const KernelContext& context) {
  const int64_t rows = node.inputs[0].shape[0];
  LossArguments call;
  call.classes = node.inputs[0].shape[1];
  call.logits = context.inputs[0];
  call.labels = static_cast<const int32_t*>(context.inputs[1]);
  call.lse = static_cast<float*>(context.outputs[3]);
  call.losses = static_cast<float*>(context.scratch);
  call.correct = reinterpret_cast<uint8_t*>(call.losses + rows);
  check_labels(node, call.labels);
  const auto loop = cpu::loss_loops(node.inputs[0].dtype).forward;
  context.team.split(rows, std::max<int64_t>(1, 4096 / call.classes),
                     [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
  int64_t count = 0, correct = 0;
  for (int64_t row = 0; row < rows; ++row) {
    count += call.labels[row] >= 0;
    correct += call.correct[row];
  }
  // In the order of sums over rows, whatever the threads.
  const float sum = canonical_sum_rows(call.losses, rows, 1);
  *static_cast<float*>(context.outputs[0]) = count > 0 ? sum / static_cast<float>(count) : 0.0f;
  *static_cast<float*>(context.outputs[1]) = static_cast<float>(count);
  *static_cast<float*>(context.outputs[2]) = static_cast<float>(correct);
}

void run_backward(const NodeSignature& node, const KernelContext& context) {
  LossArguments call;
  call.classes = node.inputs[0].shape[1];
  call.logits = context.inputs[0];
  call.labels = static_cast<const int32_t*>(context.inputs[1]);
  // Read only.
  call.lse = const_cast<float*>(static_cast<const float*>(context.inputs[2]));
  call.factor = *static_cast<const float*>(context.inputs[4]) / *static_cast<const float*>(context.inputs[3]);
  call.gradient = context.outputs[0];
  check_labels(node, call.labels);
  const auto loop = cpu::loss_loops(node.inputs[0].dtype).backward;
  context.team.split(node.inputs[0].shape[0], std::max<int64_t>(1, 4096 / call.classes),
                     [&](int64_t begin, int64_t end, int) { loop(call, begin, end); });
}

}  // namespace

void add_cpu_loss(Backend& backend) {
  cpu::add_hwy(
      backend, "cross_entropy", refuse,
      [](const NodeSignature& node, int) {
        return [node](const KernelContext& context) { run_forward(node, context); };
      },
      [](const NodeSignature& node, int) { return node.inputs[0].shape[0] * 5; });
  cpu::add_hwy(backend, "cross_entropy_grad", refuse,
               [](const NodeSignature& node, int) {
                 return [node](const KernelContext& context) { run_backward(node, context); };
               },
               {}, {{0, 0}});
}

}  // namespace ramet
#endif  // HWY_ONCE
