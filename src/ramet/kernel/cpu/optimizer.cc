// Optimizers: each state is read and written once.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/optimizer.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

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

/// 16 lanes of sums in vectors.
struct Sixteen {
  static constexpr int64_t kVectors = 16 / static_cast<int64_t>(hn::MaxLanes(Df()));
  Vf lane[kVectors];
  HWY_INLINE explicit Sixteen(const float* from) {
    for (int64_t v = 0; v < kVectors; ++v) lane[v] = hn::LoadU(Df(), from + v * vector_lanes());
  }
  HWY_INLINE void store(float* to) const {
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(lane[v], Df(), to + v * vector_lanes());
  }
  /// The vector that element `i` of a stretch belongs to.
  HWY_INLINE Vf& of(int64_t i) { return lane[i / vector_lanes() % kVectors]; }
};

void lamb_direction(const UpdateArguments& call) {
  const Df d;
  const Vf scale = hn::Set(d, call.grad_scale), decay = hn::Set(d, call.weight_decay);
  Sixteen u_squares(call.sums), w_squares(call.sums + 16);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    const Vf w = load_part(call.w + i, count);
    const Vf direction = adam_direction(call, i, count, hn::Mul(scale, load_part(call.g + i, count)));
    const Vf u = keep_part(hn::MulAdd(decay, w, direction), count);
    store_part(u, call.w_out + i, count);
    u_squares.of(i) = hn::Add(u_squares.of(i), hn::Mul(u, u));
    w_squares.of(i) = hn::Add(w_squares.of(i), hn::Mul(w, w));
  });
  u_squares.store(call.sums);
  w_squares.store(call.sums + 16);
}

void lamb_apply(const UpdateArguments& call) {
  const Vf rate = hn::Set(Df(), call.rate);
  walk(call.count, [&](int64_t i, int64_t count) HWY_ATTR {
    store_part(hn::NegMulAdd(rate, load_part(call.g + i, count), load_part(call.w + i, count)), call.w_out + i, count);
  });
}

void squares(const float* from, int64_t count, float* lanes) {
  Sixteen sums(lanes);
  const int64_t step = vector_lanes(), whole = count / 16 * 16;
  for (int64_t i = 0; i < whole; i += 16)
    for (int64_t v = 0; v < Sixteen::kVectors; ++v) {
      const Vf value = hn::LoadU(Df(), from + i + v * step);
      sums.lane[v] = hn::Add(sums.lane[v], hn::Mul(value, value));
    }
  sums.store(lanes);
  for (int64_t i = whole; i < count; ++i) lanes[i - whole] += from[i] * from[i];
}

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

namespace {

using cpu::UpdateArguments;

/// Elements of a block of sum_squares and of the LAMB norms; also what narrow operands are widened by at a time.
constexpr int64_t kBlock = 4096;
int64_t blocks_of(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

float folded(float* lanes) {
  for (int64_t width = kReduceLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}

float tree(const float* leaves, int64_t count) {
  if (count == 0) return 0;
  return tree_combine<float>(
      0, count, [&](int64_t i) { return leaves[i]; }, [](float a, float b) { return a + b; });
}

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
  std::function<void(UpdateArguments&, const float* const* in, float* const* out, int64_t block)> run;
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
      update.run(call, in, out, block);
      for (int i = 0; i < update.tensors_out; ++i) result(i).end(first, count);
    }
  });
}

std::string refuse(const NodeSignature& node) {
  for (const TensorType& type : node.inputs)
    if (!is_floating(type.dtype)) return "states are not floating-point";
  return "";
}

void run_sum_squares(const NodeSignature& node, const KernelContext& context) {
  const int64_t elements = node.inputs[0].elements(), blocks = blocks_of(elements);
  auto* leaves = static_cast<float*>(context.scratch) + room_bytes(context.team.size()) / 4;
  context.team.split(blocks, 4, [&](int64_t begin, int64_t end, int rank) {
    const Operand a(node.inputs[0].dtype, context.inputs[0],
                    static_cast<float*>(context.scratch) + int64_t{rank} * kMostTensors * kBlock);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock, count = std::min(kBlock, elements - first);
      float lanes[kReduceLanes] = {};
      cpu::update_loops().squares(a.read(first, count), count, lanes);
      leaves[block] = folded(lanes);
    }
  });
  *static_cast<float*>(context.outputs[0]) = tree(leaves, blocks);
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
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int64_t) {
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
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int64_t) {
    block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
    block.w_out = out[0], block.m_out = out[1], block.v_out = out[2];
    cpu::update_loops().adam(block);
  };
  run_blocks(update, call, context);
}

void run_lamb_direction(const NodeSignature& node, const KernelContext& context) {
  Update update{node, 4, 3, {}};
  const int64_t blocks = blocks_of(node.inputs[0].elements());
  auto* leaves = static_cast<float*>(context.scratch) + room_bytes(context.team.size()) / 4;
  UpdateArguments call;
  set_moments(node.attributes, scalar(context, 4), scalar(context, 5), call);
  call.weight_decay = static_cast<float>(node.attributes.get_float("weight_decay"));
  call.grad_scale = scalar(context, 6);
  const bool whole = std::isfinite(call.grad_scale);
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int64_t index) {
    float lanes[2 * kReduceLanes] = {};
    if (whole) {
      block.w = in[0], block.g = in[1], block.m = in[2], block.v = in[3];
      block.m_out = out[0], block.v_out = out[1], block.w_out = out[2];
      block.sums = lanes;
      cpu::update_loops().lamb_direction(block);
    } else {
      if (out[0] != in[2]) std::memmove(out[0], in[2], static_cast<size_t>(block.count) * 4);
      if (out[1] != in[3]) std::memmove(out[1], in[3], static_cast<size_t>(block.count) * 4);
      std::fill_n(out[2], block.count, 0.0f);
      cpu::update_loops().squares(in[0], block.count, lanes + kReduceLanes);
    }
    leaves[index] = folded(lanes);
    leaves[blocks + index] = folded(lanes + kReduceLanes);
  };
  run_blocks(update, call, context);
  *static_cast<float*>(context.outputs[3]) = tree(leaves, blocks);
  *static_cast<float*>(context.outputs[4]) = tree(leaves + blocks, blocks);
}

void run_lamb_apply(const NodeSignature& node, const KernelContext& context) {
  Update update{node, 2, 1, {}};
  const float norm_u = std::sqrt(scalar(context, 2)), norm_w = std::sqrt(scalar(context, 3));
  UpdateArguments call;
  call.rate = scalar(context, 4) * (norm_u > 0 && norm_w > 0 ? norm_w / norm_u : 1.0f);
  if (!std::isfinite(scalar(context, 5))) return copy_states(update, context, {{0, 0}});
  update.run = [&](UpdateArguments& block, const float* const* in, float* const* out, int64_t) {
    block.w = in[0], block.g = in[1], block.w_out = out[0];
    cpu::update_loops().lamb_apply(block);
  };
  run_blocks(update, call, context);
}

using Run = void (*)(const NodeSignature&, const KernelContext&);

/// `leaves`: floats of scratch for each block beside the room.
void add(Backend& backend, const std::string& op, Run run, int64_t leaves, std::vector<std::pair<int, int>> aliases) {
  cpu::add_hwy(
      backend, op, refuse,
      [run](const NodeSignature& node, int) {
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      [leaves](const NodeSignature& node, int threads) {
        return room_bytes(threads) + leaves * blocks_of(node.inputs[0].elements()) * 4;
      },
      std::move(aliases));
}

}  // namespace

void add_cpu_optimizer(Backend& backend) {
  add(backend, "sum_squares", run_sum_squares, 1, {});
  add(backend, "sgd", run_sgd, 0, {{0, 0}, {2, 1}});
  add(backend, "adam", run_adam, 0, {{0, 0}, {2, 1}, {3, 2}});
  add(backend, "lamb_direction", run_lamb_direction, 2, {{2, 0}, {3, 1}, {1, 2}});
  add(backend, "lamb_apply", run_lamb_apply, 0, {{0, 0}});
}

}  // namespace ramet
#endif  // HWY_ONCE
