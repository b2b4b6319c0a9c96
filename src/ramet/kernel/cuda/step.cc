// Steps of optimizers for large batches (device/step.cu).

#include <algorithm>

#include "ramet/kernel/cuda/device/step_arguments.h"
#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::StepArguments;

/// Where a node has its operands: indices of inputs, -1 for none.
struct StepOperands {
  int m = -1, rate = -1, grad_scale = -1, squares_w = -1, squares_g = -1;
};

StepOperands operands_of(const NodeSignature& node) {
  const std::string& op = node.op->name;
  if (op == "lion") return {.m = 2, .rate = 3, .grad_scale = 4};
  if (op == "moving_average") return {.rate = 2, .grad_scale = 3};
  const bool moment = node.attributes.get_float(op == "lars" ? "momentum" : "beta1") != 0;
  const int first = moment ? 3 : 2, m = moment ? 2 : -1;
  if (op == "lars")
    return {.m = m, .rate = first + 2, .grad_scale = first + 3, .squares_w = first, .squares_g = first + 1};
  return {.m = m, .rate = first + 2, .grad_scale = first + 3, .squares_w = first + 1, .squares_g = first};
}

StepArguments numbers_of(const NodeSignature& node) {
  const Attributes& attributes = node.attributes;
  const auto number = [&](const char* name) { return attributes.get_float_or(name, 0); };
  StepArguments a{};
  a.count = node.inputs[0].elements();
  a.weight_decay = static_cast<float>(number("weight_decay"));
  a.beta1 = static_cast<float>(node.op->name == "lars" ? number("momentum") : number("beta1"));
  a.one_less_beta1 = static_cast<float>(1 - number("beta1"));
  a.one_less_beta2 = static_cast<float>(1 - number("beta2"));
  a.coefficient = static_cast<float>(number("trust_coefficient"));
  a.cap = static_cast<float>(number("norm_cap"));
  a.least = static_cast<float>(number("scale_epsilon"));
  a.clip = static_cast<float>(number("clip_threshold"));
  if (attributes.has("elements"))
    a.elements = static_cast<double>(std::max<int64_t>(1, attributes.get_int("elements")));
  return a;
}

std::unique_ptr<CudaKernel> make_step(const NodeSignature& node) {
  const StepOperands at = operands_of(node);
  const StepArguments numbers = numbers_of(node);
  const CudaFunction function = load_cuda_function(cuda_device_source("step.cu"), node.op->name);
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    const auto in = [&](int i) {
      return i < 0 ? nullptr : static_cast<const float*>(operands.inputs[static_cast<size_t>(i)]);
    };
    StepArguments a = numbers;
    a.w = in(0), a.g = in(1), a.m = in(at.m);
    a.rate = in(at.rate), a.grad_scale = in(at.grad_scale);
    a.squares_w = in(at.squares_w), a.squares_g = in(at.squares_g);
    a.w_out = static_cast<float*>(operands.outputs[0]);
    if (at.m >= 0) a.m_out = static_cast<float*>(operands.outputs[1]);
    stream.launch(function, grid_of_groups(a.count), a);
  });
}

std::string refuse(const NodeSignature& node) {
  const bool narrow =
      std::ranges::any_of(node.inputs, [](const TensorType& type) { return type.dtype != DType::kF32; });
  return narrow ? "a state is not f32" : "";
}

}  // namespace

void add_cuda_step(Backend& backend) {
  for (const char* op : {"lion", "lars", "adafactor_apply"})
    add_card(backend, {.op = op, .refuse = refuse, .make = make_step, .aliases = {{0, 0}, {2, 1}}});
  add_card(backend, {.op = "moving_average", .refuse = refuse, .make = make_step, .aliases = {{0, 0}}});
}

}  // namespace ramet::kernel::cuda
