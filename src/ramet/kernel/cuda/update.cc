// Optimizers and exact sums (device/update.cu, device/sums.cu).

#include <algorithm>

#include "ramet/kernel/cuda/device/update_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/rounding_arguments.h"
#include "ramet/ops/exact_sum.h"
#include "ramet/ops/rounding.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::UpdateArguments;

constexpr int64_t kGroup = 4;        // elements that a thread has at once
constexpr int64_t kOneBlock = 4096;  // elements up to which one block makes a sum, without a second launch
constexpr int kMostSumBlocks = kProcessors * 4;
constexpr int kSumThreads = 256, kFinishThreads = 32 * ops::kExactIntegers;

// --- sums ---

/// The grid of a kernel that sums over `elements`.
CudaGrid sum_grid(int64_t elements) {
  if (elements <= kOneBlock) return {.x = 1, .threads = kSumThreads};
  const int64_t blocks = (elements + 2 * kGroup * kSumThreads - 1) / (2 * kGroup * kSumThreads);
  return {.x = std::min<int64_t>(blocks, kMostSumBlocks), .threads = kSumThreads};
}
int64_t partials_bytes(int64_t elements, int sums) { return sum_grid(elements).x * ops::kExactIntegers * 4 * sums; }

/// Adds the partial sums that the blocks of `grid` left, if there are several.
class FinishSums {
 public:
  FinishSums() : function_(load_cuda_function(cuda_device_source("sums.cu", {"Element=F32"}), "finish_sums")) {}
  void launch(CudaStream& stream, const CudaGrid& grid, const unsigned* partials,
              std::initializer_list<void*> results) const {
    if (grid.x == 1) return;
    ramet_device::FinishArguments arguments{.blocks = static_cast<int>(grid.x), .partials = {}, .results = {}};
    int sum = 0;
    for (void* const result : results) {
      arguments.partials[sum] = partials + sum * grid.x * ops::kExactIntegers;
      arguments.results[sum++] = static_cast<long long*>(result);
    }
    stream.launch(function_, {.x = sum, .threads = kFinishThreads}, arguments);
  }

 private:
  CudaFunction function_;
};

std::unique_ptr<CudaKernel> make_sum(const NodeSignature& node, const char* name, float least) {
  const TensorType& from = node.inputs[0];
  const CudaFunction function =
      load_cuda_function(cuda_device_source("sums.cu", {"Element=" + storage_of(from.dtype)}), name);
  return std::make_unique<StreamKernel>(
      [=, finish = FinishSums(), count = from.elements(), grid = sum_grid(from.elements())](
          CudaStream& stream, const KernelOperands& operands) {
        ramet_device::SumArguments arguments{.count = count,
                                             .from = operands.inputs[0],
                                             .least = least,
                                             .partials = static_cast<unsigned*>(operands.scratch),
                                             .result = static_cast<long long*>(operands.outputs[0])};
        stream.launch(function, grid, arguments);
        finish.launch(stream, grid, arguments.partials, {operands.outputs[0]});
      });
}

std::unique_ptr<CudaKernel> make_exact_sum(const NodeSignature&) {
  const CudaFunction function = load_cuda_function(cuda_device_source("sums.cu", {"Element=F32"}), "exact_sum");
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    auto* result = static_cast<long long*>(operands.outputs[0]);
    // Sums of more than fit a launch begin with what came out before.
    for (size_t next = 0; next < operands.inputs.size();) {
      ramet_device::ExactSumArguments arguments{.count = 0, .sums = {}, .result = result};
      if (next > 0) arguments.sums[arguments.count++] = result;
      while (next < operands.inputs.size() && arguments.count < ramet_device::kMostSums)
        arguments.sums[arguments.count++] = static_cast<const long long*>(operands.inputs[next++]);
      stream.launch(function, {.x = 1, .threads = kFinishThreads}, arguments);
    }
  });
}

std::unique_ptr<CudaKernel> make_from_exact(const NodeSignature&) {
  const CudaFunction function = load_cuda_function(cuda_device_source("sums.cu", {"Element=F32"}), "from_exact");
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    stream.launch(function, {.x = 1, .threads = 32},
                  ramet_device::FromExactArguments{.sum = static_cast<const long long*>(operands.inputs[0]),
                                                   .result = static_cast<float*>(operands.outputs[0])});
  });
}

// --- updates ---

/// Where a node has its operands: indices of inputs and outputs, -1 for none.
struct UpdateOperands {
  int w = 0, g = 1, m = -1, v = -1, rate = -1, correction1 = -1, correction2 = -1, grad_scale = -1;
  int squares_u = -1, squares_w = -1;
  int w_out = -1, m_out = -1, v_out = -1, u_out = -1, squares_u_out = -1, squares_w_out = -1;
};

UpdateOperands operands_of(const NodeSignature& node) {
  const std::string& op = node.op->name;
  if (op == "sgd" && node.attributes.get_float("momentum") != 0)
    return {.m = 2, .rate = 3, .grad_scale = 4, .w_out = 0, .m_out = 1};
  if (op == "sgd") return {.rate = 2, .grad_scale = 3, .w_out = 0};
  if (op == "adam")
    return {.m = 2,
            .v = 3,
            .rate = 4,
            .correction1 = 5,
            .correction2 = 6,
            .grad_scale = 7,
            .w_out = 0,
            .m_out = 1,
            .v_out = 2};
  if (op == "lamb_direction")
    return {.m = 2,
            .v = 3,
            .correction1 = 4,
            .correction2 = 5,
            .grad_scale = 6,
            .m_out = 0,
            .v_out = 1,
            .u_out = 2,
            .squares_u_out = 3,
            .squares_w_out = 4};
  return {.rate = 4, .grad_scale = 5, .squares_u = 2, .squares_w = 3, .w_out = 0};
}

bool is_split(const NodeSignature& node) { return node.attributes.get_bool_or("split", false); }

std::vector<std::string> definitions_of(const NodeSignature& node, const UpdateOperands& at) {
  const auto type = [&](int input) {
    return input < 0 ? std::string("F32") : storage_of(node.inputs[static_cast<size_t>(input)].dtype);
  };
  return {"Weight=" + type(at.w),
          "Gradient=" + type(at.g),
          "Moment=" + type(at.m),
          "Square=" + type(at.v),
          std::string("kHalves=") + (is_split(node) ? "1" : "0"),
          std::string("kRandom=") + (ops::rounds_stochastically(node) ? "1" : "0")};
}

/// The numbers of a node that do not change from step to step.
UpdateArguments numbers_of(const NodeSignature& node) {
  const Attributes& attributes = node.attributes;
  const auto number = [&](const char* name) { return attributes.get_float_or(name, 0); };
  UpdateArguments a{};
  a.count = node.inputs[0].elements();
  a.momentum = static_cast<float>(number("momentum"));
  a.weight_decay = static_cast<float>(number("weight_decay"));
  a.one_less_beta1 = static_cast<float>(1 - number("beta1"));
  a.beta2 = static_cast<float>(number("beta2"));
  a.one_less_beta2 = static_cast<float>(1 - number("beta2"));
  a.epsilon = static_cast<float>(number("epsilon"));
  a.nesterov = attributes.get_bool_or("nesterov", false);
  a.decoupled = attributes.get_bool_or("decoupled", false);
  a.rounding = rounding_of(node);
  return a;
}

template <typename T>
T* operand(std::span<void* const> list, int at) {
  return at < 0 ? nullptr : static_cast<T*>(list[static_cast<size_t>(at)]);
}
template <typename T>
const T* operand(std::span<const void* const> list, int at) {
  return at < 0 ? nullptr : static_cast<const T*>(list[static_cast<size_t>(at)]);
}

void set_operands(const UpdateOperands& at, bool split, bool draws, const KernelOperands& operands,
                  UpdateArguments& a) {
  const auto& in = operands.inputs;
  const auto& out = operands.outputs;
  a.w = operand<void>(in, at.w), a.g = operand<void>(in, at.g);
  a.m = operand<void>(in, at.m), a.v = operand<void>(in, at.v);
  for (const auto& [to, from] : {std::pair{&a.rate, at.rate},
                                 {&a.correction1, at.correction1},
                                 {&a.correction2, at.correction2},
                                 {&a.grad_scale, at.grad_scale},
                                 {&a.squares_u, at.squares_u},
                                 {&a.squares_w, at.squares_w}})
    *to = operand<float>(in, from);
  a.w_out = operand<void>(out, at.w_out), a.m_out = operand<void>(out, at.m_out);
  a.v_out = operand<void>(out, at.v_out), a.u_out = operand<float>(out, at.u_out);
  a.squares_u_out = operand<long long>(out, at.squares_u_out);
  a.squares_w_out = operand<long long>(out, at.squares_w_out);
  const int inputs = static_cast<int>(in.size());
  if (draws) a.rounding.counter = operand<long long>(in, inputs - 1);
  if (split) {
    a.low = operand<void>(in, inputs - 1 - draws);
    if (at.w_out >= 0) a.low_out = out.back();
  }
  a.partials = static_cast<unsigned*>(operands.scratch);
}

std::unique_ptr<CudaKernel> make_update(const NodeSignature& node) {
  const UpdateOperands at = operands_of(node);
  const CudaFunction function =
      load_cuda_function(cuda_device_source("update.cu", definitions_of(node, at)), node.op->name);
  const UpdateArguments numbers = numbers_of(node);
  const bool split = is_split(node), draws = ops::rounds_stochastically(node);
  if (at.u_out < 0)
    return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
      UpdateArguments a = numbers;
      set_operands(at, split, draws, operands, a);
      stream.launch(function, grid_of_groups(a.count), a);
    });
  return std::make_unique<StreamKernel>([=, finish = FinishSums()](CudaStream& stream, const KernelOperands& operands) {
    UpdateArguments a = numbers;
    set_operands(at, split, draws, operands, a);
    const CudaGrid grid = sum_grid(a.count);
    stream.launch(function, grid, a);
    finish.launch(stream, grid, a.partials, {a.squares_u_out, a.squares_w_out});
  });
}

std::string refuse_update(const NodeSignature& node) {
  for (const TensorType& type : node.inputs)
    if (type.dtype == DType::kF64) return "a state is f64";
  if (node.attributes.get_bool_or("own_steps", false)) return "elements count their own steps";
  return refuse_rounding(node);
}

std::string refuse_sum(const NodeSignature& node) {
  return is_floating(node.inputs[0].dtype) && node.inputs[0].dtype != DType::kF64 ? "" : "no sum of such elements";
}

std::string take(const NodeSignature&) { return ""; }

}  // namespace

void add_cuda_update(Backend& backend) {
  const auto scratch = [](int sums) {
    return [sums](const NodeSignature& node) { return partials_bytes(node.inputs[0].elements(), sums); };
  };
  add_card(backend, {.op = "sum_squares",
                     .refuse = refuse_sum,
                     .make = [](const NodeSignature& node) { return make_sum(node, "sum_squares", 0); },
                     .scratch = scratch(1)});
  add_card(backend, {.op = "count_underflow",
                     .refuse = refuse_sum,
                     .make =
                         [](const NodeSignature& node) {
                           return make_sum(node, "count_underflow",
                                           static_cast<float>(smallest_normal(node.inputs[0].dtype)));
                         },
                     .scratch = scratch(1)});
  add_card(backend, {.op = "exact_sum", .refuse = take, .make = make_exact_sum});
  add_card(backend, {.op = "from_exact", .refuse = take, .make = make_from_exact});
  add_card(backend,
           {.op = "sgd", .refuse = refuse_update, .make = make_update, .aliases = {{0, 0}, {2, 1}, {4, 1}, {5, 2}}});
  add_card(backend,
           {.op = "adam", .refuse = refuse_update, .make = make_update, .aliases = {{0, 0}, {2, 1}, {3, 2}, {8, 3}}});
  add_card(backend, {.op = "lamb_direction",
                     .refuse = refuse_update,
                     .make = make_update,
                     .scratch = scratch(2),
                     .aliases = {{2, 0}, {3, 1}, {1, 2}}});
  add_card(backend, {.op = "lamb_apply", .refuse = refuse_update, .make = make_update, .aliases = {{0, 0}, {6, 1}}});
}

}  // namespace ramet::kernel::cuda
