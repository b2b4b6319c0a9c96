// Conversions of whole tensors between floating types, and sums that are held in narrow ones: bound by memory.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/rounding.h"
#include "ramet/kernel/cpu/state_blocks.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/narrow.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

/// to = sum + scale * term, or scale * term without a sum.
void add_scaled(const float* sum, const float* term, float scale, int64_t count, float* to) {
  const Df d;
  const Vf factor = hn::Set(d, scale);
  const int64_t step = vector_lanes();
  for (int64_t i = 0; i < count; i += step) {
    const int64_t part = std::min(step, count - i);
    const Vf scaled = hn::Mul(factor, load_part(term + i, part));
    store_part(sum ? hn::Add(load_part(sum + i, part), scaled) : scaled, to + i, part);
  }
}

}  // namespace

void AddScaled(const float* sum, const float* term, float scale, int64_t count, float* to) {
  add_scaled(sum, term, scale, count, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(AddScaled);

namespace {

using cpu::StateBlocks;
using cpu::StateNode;

float scale_of(const NodeSignature& node) {
  return node.attributes.has("scale") ? static_cast<float>(node.attributes.get_float("scale")) : 1;
}

void run_narrow(const StateNode& state, const KernelContext& context) {
  const float scale = scale_of(state.node);
  const StateBlocks blocks(state,
                           {.inputs = {{.operand = 0}},
                            .outputs = {{.operand = 0, .from = state.node.inputs[0].dtype == DType::kF32 ? -1 : 0}},
                            .saturate = state.node.attributes.get_bool_or("saturate", false)},
                           context);
  blocks.run([&](int64_t count, const float* const* in, float* const* out, int) {
    if (scale != 1)
      HWY_DYNAMIC_DISPATCH(AddScaled)(nullptr, in[0], scale, count, out[0]);
    else if (in[0] != out[0])
      std::memcpy(out[0], in[0], static_cast<size_t>(count) * 4);
  });
}

void run_accumulate(const StateNode& state, const KernelContext& context) {
  const float scale = scale_of(state.node);
  const StateBlocks blocks(
      state,
      {.inputs = {{.operand = 0}, {.operand = 1}}, .outputs = {{.operand = 0, .from = 0}}, .saturate = false}, context);
  blocks.run([&](int64_t count, const float* const* in, float* const* out, int) {
    HWY_DYNAMIC_DISPATCH(AddScaled)(in[0], in[1], scale, count, out[0]);
  });
}

void run_join(const TensorType& type, const KernelContext& context) {
  const auto* high = static_cast<const uint16_t*>(context.inputs[0]);
  const auto* low = static_cast<const uint16_t*>(context.inputs[1]);
  context.team.split(type.elements(), 4096, [&](int64_t begin, int64_t end, int) {
    cpu::rounding_loops().join(high + begin, low + begin, end - begin, static_cast<float*>(context.outputs[0]) + begin);
  });
}

void run_split(const TensorType& type, const KernelContext& context) {
  const auto* from = static_cast<const float*>(context.inputs[0]);
  context.team.split(type.elements(), 4096, [&](int64_t begin, int64_t end, int) {
    cpu::rounding_loops().split(from + begin, end - begin, static_cast<uint16_t*>(context.outputs[0]) + begin,
                                static_cast<uint16_t*>(context.outputs[1]) + begin);
  });
}

void add(Backend& backend, const std::string& op, void (*run)(const StateNode&, const KernelContext&)) {
  cpu::add_hwy(
      backend, op, {},
      [run](const NodeSignature& node, int) {
        cpu_level();
        return [state = StateNode(node), run](const KernelContext& context) { run(state, context); };
      },
      [](const NodeSignature&, int threads) { return StateBlocks::room_bytes(threads); }, {{0, 0}});
}

}  // namespace

void add_cpu_narrow(Backend& backend) {
  add(backend, "narrow", run_narrow);
  add(backend, "accumulate", run_accumulate);
  cpu::add_hwy(backend, "join_halves", {}, [](const NodeSignature& node, int) {
    return [type = node.outputs[0]](const KernelContext& context) { run_join(type, context); };
  });
  cpu::add_hwy(backend, "split_halves", {}, [](const NodeSignature& node, int) {
    return [type = node.outputs[0]](const KernelContext& context) { run_split(type, context); };
  });
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
