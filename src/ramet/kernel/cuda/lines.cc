// Lines along one axis: places of extremes and running sums (device/lines.cu); and rows folded into states
// (device/fold.cu).

#include <algorithm>
#include <array>

#include "ramet/kernel/cuda/device/lines_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/row_launch.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::FoldArguments;
using ramet_device::LineArguments;

/// Around the attribute `axis`, by default the last.
LineArguments lines_of(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  const int axis = node.attributes.has("axis") ? ops::axis_attribute(node, "axis", shape.rank()) : shape.rank() - 1;
  LineArguments call{.outer = 1, .extent = shape.dim(axis), .inner = 1};
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) (i < axis ? call.outer : call.inner) *= shape.dim(i);
  call.reverse = node.attributes.get_bool_or("reverse", false) ? 1 : 0;
  return call;
}

std::string refuse_lines(const NodeSignature& node) {
  const DType dtype = node.inputs[0].dtype;
  if (!is_floating(dtype) && !is_index(dtype)) return "it orders and adds floats, i32 and i64";
  return node.inputs[0].elements() == 0 ? "no elements" : "";
}

std::unique_ptr<CudaKernel> make_lines(const NodeSignature& node, const std::string& name, bool greatest) {
  const LineArguments made = lines_of(node);
  const bool by_warp = name == "extreme_places";
  const CudaGrid grid = by_warp ? grid_of_rows(made.outer) : grid_for(made.outer * made.inner, 128);
  const CudaSource source = cuda_device_source(
      "lines.cu", {"Type=" + storage_of(node.inputs[0].dtype), std::string("kGreatest=") + (greatest ? "1" : "0")});
  return std::make_unique<StreamKernel>(
      [made, grid, function = load_cuda_function(source, name)](CudaStream& stream, const KernelOperands& operands) {
        LineArguments call = made;
        call.from = operands.inputs[0];
        call.to = operands.outputs[0];
        stream.launch(function, grid, call);
      });
}

constexpr std::array<const char*, 5> kFolds = {"average", "sum", "last", "max", "min"};

std::unique_ptr<CudaKernel> make_fold(const NodeSignature& node) {
  const auto by = std::find(kFolds.begin(), kFolds.end(), node.attributes.get_string("by")) - kFolds.begin();
  const CudaFunction function =
      load_cuda_function(cuda_device_source("fold.cu", {"kBy=" + std::to_string(by)}), "fold");
  FoldArguments made{};
  made.rows = node.inputs[1].shape.dim(0);
  made.elements = node.outputs[0].elements();
  made.momentum = static_cast<float>(node.attributes.get_float_or("momentum", 0));
  made.count_of_guards = static_cast<int>(node.inputs.size()) - 2;
  return std::make_unique<StreamKernel>([made, function](CudaStream& stream, const KernelOperands& operands) {
    if (made.elements == 0) return;
    FoldArguments call = made;
    call.state = static_cast<const float*>(operands.inputs[0]);
    call.values = static_cast<const float*>(operands.inputs[1]);
    call.to = static_cast<float*>(operands.outputs[0]);
    for (int i = 0; i < call.count_of_guards; ++i)
      call.guards[i] = static_cast<const float*>(operands.inputs[static_cast<size_t>(i) + 2]);
    stream.launch(function, grid_for(call.elements), call);
  });
}

}  // namespace

void add_cuda_lines(Backend& backend) {
  for (const bool greatest : {true, false})
    add_card(
        backend,
        {.op = greatest ? "argmax" : "argmin", .refuse = refuse_lines, .make = [greatest](const NodeSignature& node) {
           const bool together = lines_of(node).inner == 1;
           return make_lines(node, together ? "extreme_places" : "extreme_places_apart", greatest);
         }});
  add_card(backend, {.op = "cumsum", .refuse = refuse_lines, .make = [](const NodeSignature& node) {
                       return make_lines(node, "cumsum", true);
                     }});
  add_card(backend, {.op = "fold",
                     .refuse = [](const NodeSignature& node) -> std::string {
                       return node.inputs.size() > ramet_device::kMostGuards + 2 ? "too many guards" : "";
                     },
                     .make = make_fold,
                     .aliases = {{0, 0}}});
}

}  // namespace ramet::kernel::cuda
