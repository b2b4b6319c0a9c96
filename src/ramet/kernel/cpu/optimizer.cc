// Optimizers: each state is read and written once.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/optimizer.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/optimizer.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet {
namespace HWY_NAMESPACE {
namespace {

using cpu::UpdateArguments;

/// Calls `visit(element, count)` for each vector of a stretch.
template <typename Visit>
HWY_INLINE void walk(int64_t elements, const Visit& visit) {
  const int64_t step = vector_lanes();
  int64_t i = 0;
  for (; i + step <= elements; i += step) visit(i, step);
  if (i < elements) visit(i, elements - i);
}

void sgd(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay), rate = hn::Set(d, call.rate);
  const Vf momentum = hn::Set(d, call.momentum);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
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

/// Moments and direction of Adam, written and given.
HWY_INLINE Vf adam_direction(const UpdateArguments& call, int64_t i, int64_t count, Vf gradient) {
  const Df d;
  const Vf m = load_part(call.m + i, count), v = load_part(call.v + i, count);
  const Vf next_m = hn::MulAdd(hn::Set(d, call.one_less_beta1), hn::Sub(gradient, m), m);
  const Vf next_v =
      hn::MulAdd(hn::Set(d, call.beta2), v, hn::Mul(hn::Set(d, call.one_less_beta2), hn::Mul(gradient, gradient)));
  store_part(next_m, call.m_out + i, count);
  store_part(next_v, call.v_out + i, count);
  const Vf root = hn::Sqrt(hn::Mul(next_v, hn::Set(d, call.inverse_correction2)));
  return hn::Div(hn::Mul(next_m, hn::Set(d, call.inverse_correction1)), hn::Add(root, hn::Set(d, call.epsilon)));
}

void adam(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay), rate = hn::Set(d, call.rate);
  const Vf keep = hn::Set(d, call.keep);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    const Vf gradient = hn::MulAdd(decay, w, hn::Mul(scale, load_part(call.g + i, count)));
    const Vf direction = adam_direction(call, i, count, gradient);
    store_part(hn::NegMulAdd(rate, direction, hn::Mul(w, keep)), call.w_out + i, count);
  });
}

void lamb_direction(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    const Vf direction = adam_direction(call, i, count, hn::Mul(scale, load_part(call.g + i, count)));
    store_part(hn::MulAdd(decay, w, direction), call.w_out + i, count);
  });
}

void lamb_apply(const UpdateArguments& call) {
  const Vf rate = hn::Set(Df(), call.rate);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    store_part(hn::NegMulAdd(rate, load_part(call.g + i, count), load_part(call.w + i, count)), call.w_out + i, count);
  });
}

#if HWY_TARGET == HWY_SCALAR
void squares(const float* from, int64_t count, cpu::SquareTables& tables) {
  for (int64_t i = 0; i < count; ++i) exact_add_square(tables.sum, from[i]);
  exact_normalize(tables.sum);
}
#else
/// Adds the squares of one vector of elements: those are made for all lanes at once, and added one by one.
HWY_INLINE void add_squares(Vf value, cpu::SquareTables& tables) {
  const hn::RebindToUnsigned<Df> du;
  const hn::Repartition<uint64_t, decltype(du)> dw;
  constexpr size_t kLanes = hn::MaxLanes(Df());
  const auto bits = hn::BitCast(du, value), zero = hn::Zero(du);
  const auto exponent = hn::And(hn::ShiftRight<23>(bits), hn::Set(du, 255u));
  const auto hidden = hn::IfThenZeroElse(hn::Eq(exponent, zero), hn::Set(du, 0x800000u));
  const auto whole = hn::Or(hn::And(bits, hn::Set(du, 0x7fffffu)), hidden);
  const auto next = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, whole)));
  alignas(64) uint64_t even[kLanes / 2], odd[kLanes / 2];
  alignas(64) uint32_t at[kLanes];
  hn::Store(hn::MulEven(whole, whole), dw, even);
  hn::Store(hn::MulEven(next, next), dw, odd);
  hn::Store(exponent, du, at);
  for (size_t lane = 0; lane < kLanes; lane += 2) {
    tables.entry[lane % cpu::SquareTables::kTables][at[lane]] += even[lane / 2];
    tables.entry[(lane + 1) % cpu::SquareTables::kTables][at[lane + 1]] += odd[lane / 2];
  }
}

void squares(const float* from, int64_t count, cpu::SquareTables& tables) {
  static_assert(hn::MaxLanes(Df()) >= 4);  // see SquareTables::kMost
  const int64_t taken = (count + 15) / 16 * 16;
  if (tables.elements + taken > cpu::SquareTables::kMost) tables.flush();
  tables.elements += taken;
  walk(count, [&](int64_t i, int64_t part) HWY_ATTR { add_squares(load_part(from + i, part), tables); });
  uint64_t special = 0;
  for (const auto& table : tables.entry) special |= table[255];
  if (special == 0) return;
  for (auto& table : tables.entry) table[255] = 0;
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(from[i])) exact_add_square(tables.sum, from[i]);
}
#endif

constexpr cpu::UpdateLoops kUpdateLoops{sgd, adam, lamb_direction, lamb_apply, squares};

}  // namespace

const cpu::UpdateLoops* GetUpdateLoops() { return &kUpdateLoops; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet {
HWY_EXPORT(GetUpdateLoops);

const cpu::UpdateLoops& cpu::update_loops() {
  static const UpdateLoops* const loops = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetUpdateLoops)());
  return *loops;
}

void cpu::SquareTables::flush() {
  for (auto& table : entry)
    for (uint32_t exponent = 0; exponent < kExponents; ++exponent)
      if (table[exponent] != 0) {
        exact_add(sum, table[exponent], exact_shift(exponent));
        table[exponent] = 0;
      }
  exact_normalize(sum);
  elements = 0;
}

namespace {

using cpu::SquareTables;
using cpu::UpdateArguments;

/// Elements that are taken at a time: they stay in L1, also those that are widened for it.
constexpr int64_t kBlock = 4096;
int64_t blocks_of(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

/// Stretches of a tensor as f32: in place, or by way of a thread's scratch.
class Operand {
 public:
  Operand(DType dtype, const void* data, float* room)
      : dtype_(dtype), data_(static_cast<const char*>(data)), room_(room) {}
  const float* read(int64_t begin, int64_t count) const {
    const char* from = data_ + begin * static_cast<int64_t>(size_of(dtype_));
    if (dtype_ == DType::kF32) return reinterpret_cast<const float*>(from);
    cpu::map_steps().load(dtype_)(from, 1, count, room_);
    return room_;
  }

 private:
  DType dtype_;
  const char* data_;
  float* room_;
};
class Result {
 public:
  Result(DType dtype, void* data, float* room) : dtype_(dtype), data_(static_cast<char*>(data)), room_(room) {}
  float* begin(int64_t first) const { return dtype_ == DType::kF32 ? reinterpret_cast<float*>(data_) + first : room_; }
  void end(int64_t first, int64_t count) const {
    if (dtype_ != DType::kF32)
      cpu::map_steps().store(dtype_)(room_, count, data_ + first * static_cast<int64_t>(size_of(dtype_)));
  }

 private:
  DType dtype_;
  char* data_;
  float* room_;
};

float scalar(const KernelContext& context, size_t input) { return *static_cast<const float*>(context.inputs[input]); }

/// Tensors of the node that are not f32, each with a block of scratch a thread.
constexpr int kMostTensors = 8;

/// One update node: which inputs and outputs are tensors, and the loop over each block.
struct Update {
  NodeSignature node;
  int tensors_in = 0, tensors_out = 0;
  std::function<void(UpdateArguments&, const float* const* in, float* const* out, int rank)> run;
};

int64_t room_bytes(int threads) { return int64_t{threads} * kMostTensors * kBlock * 4; }

void copy_states(const Update& update, const KernelContext& context, std::initializer_list<std::pair<int, int>> pairs) {
  for (const auto& [in, out] : pairs) {
    const void* from = context.inputs[static_cast<size_t>(in)];
    void* to = context.outputs[static_cast<size_t>(out)];
    if (from != to) std::memcpy(to, from, static_cast<size_t>(update.node.inputs[static_cast<size_t>(in)].bytes()));
  }
}

void run_blocks(const Update& update, const UpdateArguments& shared, const KernelContext& context) {
  const int64_t elements = update.node.inputs[0].elements();
  context.team.split(blocks_of(elements), 1, [&](int64_t begin, int64_t end, int rank) {
    float* room = static_cast<float*>(context.scratch) + int64_t{rank} * kMostTensors * kBlock;
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock, count = std::min(kBlock, elements - first);
      const float* in[4] = {};
      float* out[3] = {};
      for (int i = 0; i < update.tensors_in; ++i) {
        const auto at = static_cast<size_t>(i);
        in[i] = Operand(update.node.inputs[at].dtype, context.inputs[at], room + i * kBlock).read(first, count);
      }
      const auto result = [&](int i) {
        const auto at = static_cast<size_t>(i);
        return Result(update.node.outputs[at].dtype, context.outputs[at], room + (update.tensors_in + i) * kBlock);
      };
      for (int i = 0; i < update.tensors_out; ++i) out[i] = result(i).begin(first);
      UpdateArguments call = shared;
      call.count = count;
      update.run(call, in, out, rank);
      for (int i = 0; i < update.tensors_out; ++i) result(i).end(first, count);
    }
  });
}

std::string refuse(const NodeSignature& node) {
  for (const TensorType& type : node.inputs)
    if (!is_floating(type.dtype) && type != exact_type()) return "states are not floating-point";
  return "";
}

/// Exact sums, each of one set of tables a thread. They lie in the scratch behind the blocks.
class ExactSums {
 public:
  static int64_t bytes(int sums, int threads) {
    return int64_t{sums} * threads * static_cast<int64_t>(sizeof(SquareTables));
  }
  ExactSums(int sums, const KernelContext& context)
      : threads_(context.team.size()),
        tables_(reinterpret_cast<SquareTables*>(static_cast<char*>(context.scratch) + room_bytes(threads_))) {
    for (int i = 0; i < sums * threads_; ++i) new (tables_ + i) SquareTables;
  }
  SquareTables& of(int sum, int rank) const { return tables_[sum * threads_ + rank]; }
  void store(int sum, void* output) const {
    int64_t total[kExactIntegers] = {};
    for (int rank = 0; rank < threads_; ++rank) {
      of(sum, rank).flush();
      for (int k = 0; k < kExactIntegers; ++k) total[k] += of(sum, rank).sum[k];
    }
    exact_normalize(total);
    std::memcpy(output, total, sizeof total);
  }

 private:
  int threads_;
  SquareTables* tables_;
};

void run_sum_squares(const NodeSignature& node, const KernelContext& context) {
  const int64_t elements = node.inputs[0].elements();
  const ExactSums sums(1, context);
  context.team.split(blocks_of(elements), 4, [&](int64_t begin, int64_t end, int rank) {
    const Operand a(node.inputs[0].dtype, context.inputs[0],
                    static_cast<float*>(context.scratch) + int64_t{rank} * kMostTensors * kBlock);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock, count = std::min(kBlock, elements - first);
      cpu::update_loops().squares(a.read(first, count), count, sums.of(0, rank));
    }
  });
  sums.store(0, context.outputs[0]);
}

void run_exact_sum(const NodeSignature& node, const KernelContext& context) {
  int64_t total[kExactIntegers] = {};
  for (size_t i = 0; i < node.inputs.size(); ++i)
    for (int k = 0; k < kExactIntegers; ++k) total[k] += static_cast<const int64_t*>(context.inputs[i])[k];
  exact_normalize(total);
  std::memcpy(context.outputs[0], total, sizeof total);
}

void run_from_exact(const NodeSignature&, const KernelContext& context) {
  *static_cast<float*>(context.outputs[0]) = exact_value(static_cast<const int64_t*>(context.inputs[0]));
}

void set_moments(const Attributes& attributes, float correction1, float correction2, UpdateArguments& call) {
  call.one_less_beta1 = static_cast<float>(1 - attributes.get_float("beta1"));
  call.beta2 = static_cast<float>(attributes.get_float("beta2"));
  call.one_less_beta2 = static_cast<float>(1 - attributes.get_float("beta2"));
  call.epsilon = static_cast<float>(attributes.get_float("epsilon"));
  call.inverse_correction1 = 1 / correction1;
  call.inverse_correction2 = 1 / correction2;
}

void run_sgd(const NodeSignature& node, const KernelContext& context) {
  const bool has_state = node.attributes.get_float("momentum") != 0;
  const size_t scalars = has_state ? 3 : 2;
  Update update{node, has_state ? 3 : 2, has_state ? 2 : 1, {}};
  UpdateArguments call;
  call.momentum = static_cast<float>(node.attributes.get_float("momentum"));
  call.weight_decay = static_cast<float>(node.attributes.get_float("weight_decay"));
  call.nesterov = node.attributes.get_bool_or("nesterov", false);
  call.rate = scalar(context, scalars);
  call.grad_scale = scalar(context, scalars + 1);
  if (!std::isfinite(call.grad_scale)) {
    copy_states(update, context, {{0, 0}});
    if (has_state) copy_states(update, context, {{2, 1}});
    return;
  }
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int) {
    block.w = in[0], block.g = in[1], block.m = in[2];
    block.w_out = out[0], block.m_out = out[1];
    cpu::update_loops().sgd(block);
  };
  run_blocks(update, call, context);
}

void run_adam(const NodeSignature& node, const KernelContext& context) {
  Update update{node, 4, 3, {}};
  UpdateArguments call;
  const float decay = static_cast<float>(node.attributes.get_float("weight_decay"));
  const bool decoupled = node.attributes.get_bool("decoupled");
  set_moments(node.attributes, scalar(context, 5), scalar(context, 6), call);
  call.rate = scalar(context, 4);
  call.grad_scale = scalar(context, 7);
  if (decoupled)
    call.keep = 1 - call.rate * decay;
  else
    call.weight_decay = decay;
  if (!std::isfinite(call.grad_scale)) return copy_states(update, context, {{0, 0}, {2, 1}, {3, 2}});
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int) {
    block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
    block.w_out = out[0], block.m_out = out[1], block.v_out = out[2];
    cpu::update_loops().adam(block);
  };
  run_blocks(update, call, context);
}

void run_lamb_direction(const NodeSignature& node, const KernelContext& context) {
  Update update{node, 4, 3, {}};
  const ExactSums sums(2, context);
  UpdateArguments call;
  set_moments(node.attributes, scalar(context, 4), scalar(context, 5), call);
  call.weight_decay = static_cast<float>(node.attributes.get_float("weight_decay"));
  call.grad_scale = scalar(context, 6);
  const bool whole = std::isfinite(call.grad_scale);
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int rank) {
    cpu::update_loops().squares(in[0], block.count, sums.of(1, rank));
    if (whole) {
      block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
      block.m_out = out[0], block.v_out = out[1], block.w_out = out[2];
      cpu::update_loops().lamb_direction(block);
      cpu::update_loops().squares(out[2], block.count, sums.of(0, rank));
    } else {
      if (out[0] != in[2]) std::memmove(out[0], in[2], static_cast<size_t>(block.count) * 4);
      if (out[1] != in[3]) std::memmove(out[1], in[3], static_cast<size_t>(block.count) * 4);
      std::fill_n(out[2], block.count, 0.0f);
    }
  };
  run_blocks(update, call, context);
  sums.store(0, context.outputs[3]);
  sums.store(1, context.outputs[4]);
}

void run_lamb_apply(const NodeSignature& node, const KernelContext& context) {
  Update update{node, 2, 1, {}};
  const float norm_u = std::sqrt(scalar(context, 2)), norm_w = std::sqrt(scalar(context, 3));
  UpdateArguments call;
  call.rate = scalar(context, 4) * (norm_u > 0 && norm_w > 0 ? norm_w / norm_u : 1.0f);
  if (!std::isfinite(scalar(context, 5))) return copy_states(update, context, {{0, 0}});
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int) {
    block.w = in[0], block.g = in[1], block.w_out = out[0];
    cpu::update_loops().lamb_apply(block);
  };
  run_blocks(update, call, context);
}

using Run = void (*)(const NodeSignature&, const KernelContext&);

/// `sums`: exact sums that it makes.
void add(Backend& backend, const std::string& op, Run run, int sums, std::vector<std::pair<int, int>> aliases) {
  cpu::add_hwy(
      backend, op, refuse,
      [run](const NodeSignature& node, int) {
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      [sums](const NodeSignature&, int threads) { return room_bytes(threads) + ExactSums::bytes(sums, threads); },
      std::move(aliases));
}

}  // namespace

void add_cpu_optimizer(Backend& backend) {
  add(backend, "sum_squares", run_sum_squares, 1, {});
  add(backend, "exact_sum", run_exact_sum, 0, {});
  add(backend, "from_exact", run_from_exact, 0, {});
  add(backend, "sgd", run_sgd, 0, {{0, 0}, {2, 1}});
  add(backend, "adam", run_adam, 0, {{0, 0}, {2, 1}, {3, 2}});
  add(backend, "lamb_direction", run_lamb_direction, 2, {{2, 0}, {3, 1}, {1, 2}});
  add(backend, "lamb_apply", run_lamb_apply, 0, {{0, 0}});
}

}  // namespace ramet
#endif  // HWY_ONCE
