// Lion, LARS and Adafactor's last step: each state is read and written once, a stretch at a time.

#include <algorithm>
#include <cmath>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/large_batch_optimizer.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/large_batch_optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::StepArguments;

void lion(const StepArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), keep = hn::Set(d, call.keep), rate = hn::Set(d, call.rate);
  const Vf one_less_beta1 = hn::Set(d, call.one_less_beta1), one_less_beta2 = hn::Set(d, call.one_less_beta2);
  const Vf beta1 = hn::Set(d, call.beta1), zero = hn::Zero(d);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf gradient = hn::Mul(scale, load_part(call.g + i, count)), m = load_part(call.m + i, count);
    const Vf direction = hn::MulAdd(beta1, m, hn::Mul(one_less_beta1, gradient));
    const Vf w = hn::Mul(keep, load_part(call.w + i, count));
    const Vf step = hn::IfThenZeroElse(hn::Eq(direction, zero), hn::CopySign(rate, direction));
    store_part(hn::Sub(w, step), call.w_out + i, count);
    store_part(hn::MulAdd(one_less_beta2, hn::Sub(gradient, m), m), call.m_out + i, count);
  });
}

void lars(const StepArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay), rate = hn::Set(d, call.rate);
  const Vf momentum = hn::Set(d, call.beta1);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    Vf step = hn::Mul(rate, hn::MulAdd(decay, w, hn::Mul(scale, load_part(call.g + i, count))));
    if (call.m) {
      step = hn::MulAdd(momentum, load_part(call.m + i, count), step);
      store_part(step, call.m_out + i, count);
    }
    store_part(hn::Sub(w, step), call.w_out + i, count);
  });
}

void adafactor(const StepArguments& call) {
  const Df d;
  const Vf keep = hn::Set(d, call.keep), rate = hn::Set(d, call.rate);
  const Vf beta1 = hn::Set(d, call.beta1), one_less_beta1 = hn::Set(d, call.one_less_beta1);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    Vf step = hn::Mul(rate, load_part(call.g + i, count));
    if (call.m) {
      step = hn::MulAdd(beta1, load_part(call.m + i, count), hn::Mul(one_less_beta1, step));
      store_part(step, call.m_out + i, count);
    }
    store_part(hn::MulSub(keep, load_part(call.w + i, count), step), call.w_out + i, count);
  });
}

/// w is the average, g the value, keep the decay.
void average(const StepArguments& call) {
  const Vf one_less = hn::Set(Df(), call.one_less_beta1);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf a = load_part(call.w + i, count);
    store_part(hn::MulAdd(one_less, hn::Sub(load_part(call.g + i, count), a), a), call.w_out + i, count);
  });
}

constexpr cpu::StepLoops kStepLoops{lion, lars, adafactor, average};

}  // namespace

const cpu::StepLoops* GetStepLoops() { return &kStepLoops; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetStepLoops);

const cpu::StepLoops& cpu::step_loops() {
  static const StepLoops* const loops = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetStepLoops)());
  return *loops;
}

namespace {

using cpu::StepArguments;

constexpr int64_t kBlock = 4096;  // elements that are taken at a time

float scalar(const KernelContext& context, size_t input) { return *static_cast<const float*>(context.inputs[input]); }

/// Runs a loop over w, g (or u) and, with `moment`, the state behind them; leaves all as it is unless `whole`.
void run_blocks(const NodeSignature& node, const KernelContext& context, bool moment, bool whole,
                const StepArguments& shared, cpu::StepLoops::Loop loop) {
  const auto in = [&](size_t i) { return static_cast<const float*>(context.inputs[i]); };
  const auto out = [&](size_t i) { return static_cast<float*>(context.outputs[i]); };
  const int64_t elements = node.inputs[0].elements();
  context.team.split(elements, kBlock, [&](int64_t begin, int64_t end, int) {
    if (!whole) {
      const auto keep = [&](const float* from, float* to) {
        if (from != to) std::copy(from + begin, from + end, to + begin);
      };
      keep(in(0), out(0));
      if (moment) keep(in(2), out(1));
      return;
    }
    StepArguments block = shared;
    block.count = end - begin;
    block.w = in(0) + begin, block.g = in(1) + begin, block.w_out = out(0) + begin;
    if (moment) block.m = in(2) + begin, block.m_out = out(1) + begin;
    loop(block);
  });
}

void run_lion(const NodeSignature& node, const KernelContext& context) {
  const Attributes& attributes = node.attributes;
  StepArguments shared;
  shared.rate = scalar(context, 3), shared.grad_scale = scalar(context, 4);
  shared.beta1 = static_cast<float>(attributes.get_float("beta1"));
  shared.one_less_beta1 = static_cast<float>(1 - attributes.get_float("beta1"));
  shared.one_less_beta2 = static_cast<float>(1 - attributes.get_float("beta2"));
  shared.keep = 1 - shared.rate * static_cast<float>(attributes.get_float("weight_decay"));
  run_blocks(node, context, true, std::isfinite(shared.grad_scale), shared, cpu::step_loops().lion);
}

void run_lars(const NodeSignature& node, const KernelContext& context) {
  const Attributes& attributes = node.attributes;
  const bool moment = attributes.get_float("momentum") != 0;
  const size_t first = moment ? 3 : 2;
  StepArguments shared;
  shared.grad_scale = scalar(context, first + 3);
  shared.weight_decay = static_cast<float>(attributes.get_float("weight_decay"));
  shared.beta1 = static_cast<float>(attributes.get_float("momentum"));
  const auto coefficient = static_cast<float>(attributes.get_float("trust_coefficient"));
  const auto cap = static_cast<float>(attributes.get_float("norm_cap"));
  const float norm_w = std::sqrt(scalar(context, first));
  const float norm_g = shared.grad_scale * std::sqrt(scalar(context, first + 1));
  const float counts = cap > 0 ? std::min(norm_w, cap) : norm_w;
  const bool adapts = coefficient > 0 && norm_w > 0 && norm_g > 0;
  const float ratio = adapts ? coefficient * counts / (norm_g + shared.weight_decay * norm_w) : 1.0f;
  shared.rate = scalar(context, first + 2) * ratio;
  run_blocks(node, context, moment, std::isfinite(shared.grad_scale), shared, cpu::step_loops().lars);
}

void run_moving_average(const NodeSignature& node, const KernelContext& context) {
  StepArguments shared;
  shared.one_less_beta1 = 1 - scalar(context, 2);
  run_blocks(node, context, false, std::isfinite(scalar(context, 3)), shared, cpu::step_loops().average);
}

void run_adafactor_apply(const NodeSignature& node, const KernelContext& context) {
  const Attributes& attributes = node.attributes;
  const bool moment = attributes.get_float("beta1") != 0;
  const size_t first = moment ? 3 : 2;
  const double elements = static_cast<double>(std::max<int64_t>(1, attributes.get_int("elements")));
  const auto rms = [&](size_t input) { return static_cast<float>(std::sqrt(scalar(context, input) / elements)); };
  const auto least = static_cast<float>(attributes.get_float("scale_epsilon"));
  const auto clip = static_cast<float>(attributes.get_float("clip_threshold"));
  const float rate = scalar(context, first + 2) * (least > 0 ? std::max(least, rms(first + 1)) : 1.0f);
  StepArguments shared;
  shared.rate = clip > 0 ? rate / std::max(1.0f, rms(first) / clip) : rate;
  shared.keep = 1 - rate * static_cast<float>(attributes.get_float("weight_decay"));
  shared.beta1 = static_cast<float>(attributes.get_float("beta1"));
  shared.one_less_beta1 = static_cast<float>(1 - attributes.get_float("beta1"));
  run_blocks(node, context, moment, std::isfinite(scalar(context, first + 3)), shared, cpu::step_loops().adafactor);
}

std::string refuse(const NodeSignature& node) {
  for (const TensorType& type : node.inputs)
    if (type.dtype != DType::kF32) return "a state is not f32";
  return "";
}

using Run = void (*)(const NodeSignature&, const KernelContext&);

void add(Backend& backend, const std::string& op, Run run, std::vector<std::pair<int, int>> aliases) {
  cpu::add_hwy(
      backend, op, refuse,
      [run](const NodeSignature& node, int) {
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      {}, std::move(aliases));
}

}  // namespace

void add_cpu_large_batch_optimizer(Backend& backend) {
  add(backend, "lion", run_lion, {{0, 0}, {2, 1}});
  add(backend, "lars", run_lars, {{0, 0}, {2, 1}});
  add(backend, "moving_average", run_moving_average, {{0, 0}});
  add(backend, "adafactor_apply", run_adafactor_apply, {{0, 0}, {2, 1}});
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
