// Tensors and sums in narrow floats (device/narrow.cu).

#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/rounding_arguments.h"

namespace ramet::kernel::cuda {
namespace {

/// `narrow` has no sum, `accumulate` has one before the term.
std::unique_ptr<CudaKernel> make_narrow(const NodeSignature& node) {
  const bool adds = node.op->name == "accumulate";
  const size_t term = adds ? 1 : 0;
  const bool draws = ops::rounds_stochastically(node);
  const CudaFunction function = load_cuda_function(
      cuda_device_source("narrow.cu",
                         {"Sum=" + storage_of(node.inputs[0].dtype), "Term=" + storage_of(node.inputs[term].dtype),
                          "Result=" + storage_of(node.outputs[0].dtype), std::string("kRandom=") + (draws ? "1" : "0"),
                          std::string("kBounded=") + (node.attributes.get_bool_or("saturate", false) ? "1" : "0")}),
      "narrow");
  ramet_device::NarrowArguments numbers{};
  numbers.count = node.inputs[0].elements();
  numbers.scale = static_cast<float>(node.attributes.get_float_or("scale", 1));
  numbers.rounding = rounding_of(node);
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    ramet_device::NarrowArguments a = numbers;
    a.sum = adds ? operands.inputs[0] : nullptr, a.term = operands.inputs[term], a.out = operands.outputs[0];
    if (draws) a.rounding.counter = static_cast<const long long*>(operands.inputs.back());
    stream.launch(function, grid_of_groups(a.count), a);
  });
}

std::unique_ptr<CudaKernel> make_halves(const NodeSignature& node) {
  const bool joins = node.op->name == "join_halves";
  const CudaFunction function = load_cuda_function(
      cuda_device_source("narrow.cu", {"Sum=F32", "Term=F32", "Result=F32", "kRandom=0", "kBounded=0"}), node.op->name);
  const int64_t count = node.inputs[0].elements();
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    const auto in = [&](size_t i) { return const_cast<void*>(operands.inputs[i]); };
    const auto out = [&](size_t i) { return operands.outputs[i]; };
    stream.launch(function, grid_of_groups(count),
                  ramet_device::HalvesArguments{.count = count,
                                                .whole = joins ? out(0) : in(0),
                                                .high = joins ? in(0) : out(0),
                                                .low = joins ? in(1) : out(1)});
  });
}

std::string refuse(const NodeSignature& node) {
  for (const std::vector<TensorType>* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types)
      if (type.dtype == DType::kF64) return "it rounds no f64";
  return refuse_rounding(node);
}

}  // namespace

void add_cuda_narrow(Backend& backend) {
  for (const char* op : {"narrow", "accumulate"})
    add_card(backend, {.op = op, .refuse = refuse, .make = make_narrow, .aliases = {{0, 0}}});
  for (const char* op : {"join_halves", "split_halves"})
    add_card(backend, {.op = op, .refuse = refuse, .make = make_halves});
}

}  // namespace ramet::kernel::cuda
