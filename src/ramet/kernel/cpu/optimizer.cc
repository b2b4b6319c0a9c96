// Optimizers: each state is read and written once, a block at a time, whatever its type.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "ramet/base/plain_math.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/optimizer.h"
#include "ramet/kernel/cpu/state_blocks.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/exact_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::UpdateArguments;

void sgd(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay), rate = hn::Set(d, call.rate);
  const Vf momentum = hn::Set(d, call.momentum);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    Vf step = hn::MulAdd(decay, w, hn::Mul(scale, load_part(call.g + i, count)));
    if (call.m) {
      const Vf next = hn::MulAdd(momentum, load_part(call.m + i, count), step);
      store_part(next, call.m_out + i, count);
      step = call.nesterov ? hn::MulAdd(momentum, next, step) : next;
    }
    store_part(hn::NegMulAdd(rate, step, w), call.w_out + i, count);
  });
}

/// The reciprocals of the corrections of `count` elements.
HWY_INLINE void correct(const UpdateArguments& call, int64_t i, int64_t count, Vf& inverse1, Vf& inverse2) {
  const Df d;
  const hn::RebindToSigned<Df> di;
  const auto steps =
      hn::Max(hn::Zero(di), hn::ConvertTo(di, hn::Sub(hn::Set(d, call.updates), load_part(call.birth + i, count))));
  inverse1 = hn::GatherIndex(d, call.inverses1, hn::Min(steps, hn::Set(di, call.last_steps1)));
  inverse2 = hn::GatherIndex(d, call.inverses2, hn::Min(steps, hn::Set(di, call.last_steps2)));
}

/// Moments and direction of Adam, written and given.
HWY_INLINE Vf adam_direction(const UpdateArguments& call, int64_t i, int64_t count, Vf gradient) {
  const Df d;
  const Vf m = load_part(call.m + i, count), v = load_part(call.v + i, count);
  const Vf next_m = hn::MulAdd(hn::Set(d, call.one_less_beta1), hn::Sub(gradient, m), m);
  const Vf next_v =
      hn::MulAdd(hn::Set(d, call.beta2), v, hn::Mul(hn::Set(d, call.one_less_beta2), hn::Mul(gradient, gradient)));
  store_part(next_m, call.m_out + i, count);
  store_part(next_v, call.v_out + i, count);
  Vf inverse1 = hn::Set(d, call.inverse_correction1), inverse2 = hn::Set(d, call.inverse_correction2);
  if (call.birth) correct(call, i, count, inverse1, inverse2);
  const Vf root = hn::Sqrt(hn::Mul(next_v, inverse2));
  return hn::Div(hn::Mul(next_m, inverse1), hn::Add(root, hn::Set(d, call.epsilon)));
}

void adam(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay), rate = hn::Set(d, call.rate);
  const Vf keep = hn::Set(d, call.keep);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    const Vf gradient = hn::MulAdd(decay, w, hn::Mul(scale, load_part(call.g + i, count)));
    const Vf direction = adam_direction(call, i, count, gradient);
    store_part(hn::NegMulAdd(rate, direction, hn::Mul(w, keep)), call.w_out + i, count);
  });
}

void lamb_direction(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    const Vf direction = adam_direction(call, i, count, hn::Mul(scale, load_part(call.g + i, count)));
    store_part(hn::MulAdd(decay, w, direction), call.w_out + i, count);
  });
}

void lamb_apply(const UpdateArguments& call) {
  const Vf rate = hn::Set(Df(), call.rate);
  walk_vectors(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    store_part(hn::NegMulAdd(rate, load_part(call.g + i, count), load_part(call.w + i, count)), call.w_out + i, count);
  });
}

void squares_one_by_one(const float* from, int64_t count, int64_t* sum) {
  for (int64_t i = 0; i < count; ++i) exact_add_square(sum, from[i]);
}

#if HWY_TARGET == HWY_SCALAR
void squares(const float* from, int64_t count, int64_t* sum) {
  squares_one_by_one(from, count, sum);
  exact_normalize(sum);
}
#else
using Dd = hn::ScalableTag<double>;
using Vd = hn::Vec<Dd>;

/// Adds a multiple of 2^-298 of any sign.
void add_value(double value, int64_t* sum) {
  if (value == 0) return;
  int exponent = 0;
  auto whole = static_cast<uint64_t>(std::ldexp(std::frexp(std::abs(value), &exponent), 53));
  int shift = exponent - 53 - kExactLeastExponent;
  if (shift < 0) whole >>= -shift, shift = 0;
  int64_t digits[kExactDigits] = {};
  exact_add(digits, whole, shift);
  for (int k = 0; k < kExactDigits; ++k) sum[k] += value < 0 ? -digits[k] : digits[k];
}

HWY_NOINLINE void add_lanes(Vd values, int64_t* sum) {
  alignas(64) double lanes[hn::MaxLanes(Dd())];
  hn::Store(values, Dd(), lanes);
  for (const double lane : lanes) add_value(lane, sum);
}

/// Takes from `value` its part that is a multiple of `rounder` / (1.5 * 2^52) and adds it to `sum`.
HWY_INLINE Vd take(Vd value, Vd rounder, Vd& sum) {
  const Vd part = hn::Sub(hn::Add(value, rounder), rounder);
  sum = hn::Add(sum, part);
  return hn::Sub(value, part);
}

/// The greatest and the least magnitude but 0 of a stretch, as bits.
struct Range {
  uint32_t most = 0, least = ~0u;
};
Range range_of(const float* from, int64_t count) {
  const hn::RebindToUnsigned<Df> du;
  auto most = hn::Zero(du), least = hn::Set(du, ~0u);
  const auto one = hn::Set(du, 1);
  walk_vectors(count, [&](int64_t i, int64_t part) HWY_ATTR {
    const auto bits = hn::BitCast(du, hn::Abs(load_part(from + i, part)));
    most = hn::Max(most, bits);
    least = hn::Min(least, hn::Sub(bits, one));  // 0 becomes the greatest
  });
  return {hn::GetLane(hn::MaxOfLanes(du, most)), hn::GetLane(hn::MinOfLanes(du, least))};
}

/// Squares, which are exact in f64, are cut into multiples of units of 39 bits each below the greatest, of which 2^12
/// add up exactly (as the pre-rounding of Demmel and Nguyen, "Fast reproducible floating-point summation", ARITH 2013).
/// Two units hold what is up to 2^15 times smaller than the greatest; where there is less, elements are looked at one
/// vector at a time.
void squares(const float* from, int64_t count, int64_t* sum) {
  constexpr int kBits = 39;
  constexpr int64_t kPart = 256, kMostParts = 16;
  const hn::Rebind<float, Dd> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(Dd()));
  const int64_t whole = count - count % lanes;
  uint32_t most = 0, least[kMostParts];
  for (int64_t part = 0; part * kPart < whole; ++part) {
    const Range range = range_of(from + part * kPart, std::min(kPart, whole - part * kPart));
    most = std::max(most, range.most);
    least[part] = range.least;
  }
  if (most >> 23 == 255) {
    squares_one_by_one(from, count, sum);
    return exact_normalize(sum);
  }
  const int top = 2 * (std::max(static_cast<int>(most >> 23), 1) - 126);  // every square is less than 2^top
  const auto rounder_of = [](int exponent) {
    return hn::Set(Dd(), std::ldexp(1.5, 52 + std::max(exponent, kExactLeastExponent)));
  };
  const Vd high = rounder_of(top - kBits), middle = rounder_of(top - 2 * kBits), low = rounder_of(top - 3 * kBits);
  Vd highs = hn::Zero(Dd()), middles = highs, lows = highs;
  const auto is_zero = [](Vd rest) HWY_ATTR { return hn::AllTrue(Dd(), hn::Eq(rest, hn::Zero(Dd()))); };
  const auto square_at = [&](int64_t i) HWY_ATTR {
    const Vd value = hn::PromoteTo(Dd(), hn::LoadU(half, from + i));
    return hn::Mul(value, value);
  };
  for (int64_t begin = 0; begin < whole; begin += kPart) {
    const int64_t end = std::min(whole, begin + kPart);
    if ((least[begin / kPart] >> 23) + 15 >= most >> 23) {
      for (int64_t i = begin; i < end; i += lanes) middles = hn::Add(middles, take(square_at(i), high, highs));
      continue;
    }
    for (int64_t i = begin; i < end; i += lanes) {
      Vd rest = take(take(square_at(i), high, highs), middle, middles);
      if (is_zero(rest)) continue;
      rest = take(rest, low, lows);
      if (!is_zero(rest)) add_lanes(rest, sum);
    }
  }
  for (const Vd part : {highs, middles, lows}) add_value(hn::GetLane(hn::SumOfLanes(Dd(), part)), sum);
  squares_one_by_one(from + whole, count - whole, sum);
  exact_normalize(sum);
}
#endif

int64_t count_small(const float* from, int64_t count, float least) {
  const Df d;
  const Vf limit = hn::Set(d, least), zero = hn::Zero(d);
  int64_t found = 0;
  walk_vectors(count, [&](int64_t i, int64_t part) HWY_ATTR {
    const Vf magnitude = hn::Abs(load_part(from + i, part));
    found += static_cast<int64_t>(hn::CountTrue(d, hn::And(hn::Gt(magnitude, zero), hn::Lt(magnitude, limit))));
  });
  return found;
}

constexpr cpu::UpdateLoops kUpdateLoops{sgd, adam, lamb_direction, lamb_apply, squares, count_small};

}  // namespace

const cpu::UpdateLoops* GetUpdateLoops() { return &kUpdateLoops; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetUpdateLoops);

const cpu::UpdateLoops& cpu::update_loops() {
  static const UpdateLoops* const loops = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetUpdateLoops)());
  return *loops;
}

namespace {

using cpu::UpdateArguments;

using cpu::StateBlocks;
using cpu::StateNode;
using cpu::StateTensors;

float scalar(const KernelContext& context, size_t input) { return *static_cast<const float*>(context.inputs[input]); }

constexpr StateRole kPlain = StateRole::kPlain, kMoment = StateRole::kMoment, kSquare = StateRole::kSquare;

std::string refuse(const NodeSignature& node) {
  for (const TensorType& type : node.inputs)
    if (!is_floating(type.dtype) && type.dtype != DType::kU16 && type != exact_type() && type != counter_type())
      return "states are not floating-point";
  return "";
}

/// Exact sums, each with an accumulator a thread. They lie in the scratch behind the blocks.
class ExactSums {
 public:
  static int64_t bytes(int sums, int threads) { return int64_t{sums} * threads * kStride * 8; }
  ExactSums(int sums, const KernelContext& context)
      : threads_(context.team.size()),
        sums_(reinterpret_cast<int64_t*>(static_cast<char*>(context.scratch) + StateBlocks::room_bytes(threads_))) {
    std::fill_n(sums_, int64_t{sums} * threads_ * kStride, 0);
  }
  int64_t* of(int sum, int rank) const { return sums_ + (int64_t{sum} * threads_ + rank) * kStride; }
  void store(int sum, void* output) const {
    int64_t total[kExactIntegers] = {};
    for (int rank = 0; rank < threads_; ++rank)
      for (int k = 0; k < kExactIntegers; ++k) total[k] += of(sum, rank)[k];
    exact_normalize(total);
    std::memcpy(output, total, sizeof total);
  }

 private:
  static constexpr int64_t kStride = 24;  // whole cache lines
  int threads_;
  int64_t* sums_;
};

void run_sum_squares(const StateNode& state, const KernelContext& context) {
  const ExactSums sums(1, context);
  const StateBlocks blocks(state, {.inputs = {{0, kPlain}}, .outputs = {}}, context);
  blocks.run([&](int64_t count, const float* const* in, float* const*, int rank) {
    cpu::update_loops().squares(in[0], count, sums.of(0, rank));
  });
  sums.store(0, context.outputs[0]);
}

void run_count_underflow(const StateNode& state, const KernelContext& context) {
  const ExactSums sums(1, context);
  const auto least = static_cast<float>(smallest_normal(state.node.inputs[0].dtype));
  const StateBlocks blocks(state, {.inputs = {{0, kPlain}}, .outputs = {}}, context);
  blocks.run([&](int64_t count, const float* const* in, float* const*, int rank) {
    const int64_t found = cpu::update_loops().count_small(in[0], count, least);
    exact_add(sums.of(0, rank), static_cast<uint64_t>(found), -kExactLeastExponent);
  });
  sums.store(0, context.outputs[0]);
}

void run_exact_sum(const StateNode& state, const KernelContext& context) {
  int64_t total[kExactIntegers] = {};
  for (size_t i = 0; i < state.node.inputs.size(); ++i)
    for (int k = 0; k < kExactIntegers; ++k) total[k] += static_cast<const int64_t*>(context.inputs[i])[k];
  exact_normalize(total);
  std::memcpy(context.outputs[0], total, sizeof total);
}

void run_from_exact(const StateNode&, const KernelContext& context) {
  *static_cast<float*>(context.outputs[0]) = exact_value(static_cast<const int64_t*>(context.inputs[0]));
}

/// Reciprocals of a moment's corrections by the number of steps before, up to the first that is 1.
const std::vector<float>& inverse_corrections(double beta) {
  static std::mutex mutex;
  static std::map<double, std::vector<float>> known;
  const std::lock_guard lock(mutex);
  std::vector<float>& inverses = known[beta];
  for (int64_t steps = 0; inverses.empty() || inverses.back() != 1; ++steps)
    inverses.push_back(1 / static_cast<float>(bias_correction(beta, steps)));
  return inverses;
}

/// What the tables give a node whose elements count their own steps.
void set_tables(const Attributes& attributes, UpdateArguments& call) {
  const auto& first = inverse_corrections(attributes.get_float("beta1"));
  const auto& second = inverse_corrections(attributes.get_float("beta2"));
  call.inverses1 = first.data(), call.last_steps1 = static_cast<int32_t>(first.size()) - 1;
  call.inverses2 = second.data(), call.last_steps2 = static_cast<int32_t>(second.size()) - 1;
}

void set_moments(const Attributes& attributes, float correction1, float correction2, UpdateArguments& call) {
  call.one_less_beta1 = static_cast<float>(1 - attributes.get_float("beta1"));
  call.beta2 = static_cast<float>(attributes.get_float("beta2"));
  call.one_less_beta2 = static_cast<float>(1 - attributes.get_float("beta2"));
  call.epsilon = static_cast<float>(attributes.get_float("epsilon"));
  call.inverse_correction1 = 1 / correction1;
  call.inverse_correction2 = 1 / correction2;
}

void run_sgd(const StateNode& state, const KernelContext& context) {
  const bool has_state = state.node.attributes.get_float("momentum") != 0;
  const size_t scalars = has_state ? 3 : 2;
  UpdateArguments shared;
  shared.momentum = static_cast<float>(state.node.attributes.get_float("momentum"));
  shared.weight_decay = static_cast<float>(state.node.attributes.get_float("weight_decay"));
  shared.nesterov = state.node.attributes.get_bool_or("nesterov", false);
  shared.rate = scalar(context, scalars);
  shared.grad_scale = scalar(context, scalars + 1);
  StateTensors tensors{.inputs = {{0, kPlain}, {1, kPlain}}, .outputs = {{0, kPlain, 0}}};
  if (has_state) tensors.inputs.push_back({2, kMoment}), tensors.outputs.push_back({1, kMoment, 2});
  const StateBlocks blocks(state, tensors, context);
  if (!std::isfinite(shared.grad_scale)) return blocks.keep();
  blocks.run([&](int64_t count, const float* const* in, float* const* out, int) {
    UpdateArguments block = shared;
    block.count = count;
    block.w = in[0], block.g = in[1], block.m = in[2];
    block.w_out = out[0], block.m_out = out[1];
    cpu::update_loops().sgd(block);
  });
}

void run_adam(const StateNode& state, const KernelContext& context) {
  UpdateArguments shared;
  const float decay = static_cast<float>(state.node.attributes.get_float("weight_decay"));
  const bool decoupled = state.node.attributes.get_bool("decoupled");
  const bool own_steps = state.node.attributes.get_bool_or("own_steps", false);
  set_moments(state.node.attributes, own_steps ? 1 : scalar(context, 5), own_steps ? 1 : scalar(context, 6), shared);
  if (own_steps) set_tables(state.node.attributes, shared), shared.updates = scalar(context, 6);
  shared.rate = scalar(context, own_steps ? 5 : 4);
  shared.grad_scale = scalar(context, 7);
  if (decoupled)
    shared.keep = 1 - shared.rate * decay;
  else
    shared.weight_decay = decay;
  StateTensors tensors{.inputs = {{0, kPlain}, {1, kPlain}, {2, kMoment}, {3, kSquare}},
                       .outputs = {{0, kPlain, 0}, {1, kMoment, 2}, {2, kSquare, 3}}};
  if (own_steps) tensors.inputs.push_back({4, kPlain});
  const StateBlocks blocks(state, std::move(tensors), context);
  if (!std::isfinite(shared.grad_scale)) return blocks.keep();
  blocks.run([&](int64_t count, const float* const* in, float* const* out, int) {
    UpdateArguments block = shared;
    block.count = count;
    block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
    block.w_out = out[0], block.m_out = out[1], block.v_out = out[2];
    if (own_steps) block.birth = in[4];
    cpu::update_loops().adam(block);
  });
}

void run_lamb_direction(const StateNode& state, const KernelContext& context) {
  const ExactSums sums(2, context);
  UpdateArguments shared;
  set_moments(state.node.attributes, scalar(context, 4), scalar(context, 5), shared);
  shared.weight_decay = static_cast<float>(state.node.attributes.get_float("weight_decay"));
  shared.grad_scale = scalar(context, 6);
  const bool whole = std::isfinite(shared.grad_scale);
  StateTensors tensors{.inputs = {{0, kPlain}, {1, kPlain}, {2, kMoment}, {3, kSquare}},
                       .outputs = {{0, kMoment, 2}, {1, kSquare, 3}, {2, kPlain, -1}}};
  if (!whole) {
    StateBlocks(state, {.inputs = {}, .outputs = {tensors.outputs[0], tensors.outputs[1]}}, context).keep();
    tensors.outputs = {tensors.outputs[2]};
  }
  StateBlocks(state, tensors, context).run([&](int64_t count, const float* const* in, float* const* out, int rank) {
    cpu::update_loops().squares(in[0], count, sums.of(1, rank));
    if (!whole) {
      std::fill_n(out[0], count, 0.0f);
      return;
    }
    UpdateArguments block = shared;
    block.count = count;
    block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
    block.m_out = out[0], block.v_out = out[1], block.w_out = out[2];
    cpu::update_loops().lamb_direction(block);
    cpu::update_loops().squares(out[2], count, sums.of(0, rank));
  });
  sums.store(0, context.outputs[3]);
  sums.store(1, context.outputs[4]);
}

void run_lamb_apply(const StateNode& state, const KernelContext& context) {
  const float norm_u = std::sqrt(scalar(context, 2)), norm_w = std::sqrt(scalar(context, 3));
  const float rate = scalar(context, 4) * (norm_u > 0 && norm_w > 0 ? norm_w / norm_u : 1.0f);
  const StateBlocks blocks(state, {.inputs = {{0, kPlain}, {1, kPlain}}, .outputs = {{0, kPlain, 0}}}, context);
  if (!std::isfinite(scalar(context, 5))) return blocks.keep();
  blocks.run([&](int64_t count, const float* const* in, float* const* out, int) {
    UpdateArguments block;
    block.count = count, block.rate = rate;
    block.w = in[0], block.g = in[1], block.w_out = out[0];
    cpu::update_loops().lamb_apply(block);
  });
}

using Run = void (*)(const StateNode&, const KernelContext&);

/// `sums`: exact sums that it makes. `aliases` may name inputs and outputs that only some forms of the op have.
void add(Backend& backend, const std::string& op, Run run, int sums, std::vector<std::pair<int, int>> aliases) {
  cpu::add_hwy(
      backend, op, refuse,
      [run](const NodeSignature& node, int) {
        return [state = StateNode(node), run](const KernelContext& context) { run(state, context); };
      },
      [sums](const NodeSignature&, int threads) {
        return StateBlocks::room_bytes(threads) + ExactSums::bytes(sums, threads);
      },
      std::move(aliases));
}

}  // namespace

void add_cpu_optimizer(Backend& backend) {
  add(backend, "sum_squares", run_sum_squares, 1, {});
  add(backend, "count_underflow", run_count_underflow, 1, {});
  add(backend, "exact_sum", run_exact_sum, 0, {});
  add(backend, "from_exact", run_from_exact, 0, {});
  add(backend, "sgd", run_sgd, 0, {{0, 0}, {2, 1}, {4, 1}, {5, 2}});
  add(backend, "adam", run_adam, 0, {{0, 0}, {2, 1}, {3, 2}, {8, 3}});
  add(backend, "lamb_direction", run_lamb_direction, 2, {{2, 0}, {3, 1}, {1, 2}});
  add(backend, "lamb_apply", run_lamb_apply, 0, {{0, 0}, {6, 1}});
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
