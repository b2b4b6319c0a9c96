// Random numbers by logical element: initial values, and those of a micro-batch.

#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/device/draw_arguments.h"
#include "ramet/kernel/cuda/element_place.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/ops/draw.h"
#include "ramet/ops/random_fill.h"

namespace ramet::kernel::cuda {
namespace {

/// Of draw.cu.
enum class Kind { kUniform = 0, kNormal = 1, kInteger = 2, kTruncatedNormal = 3 };

std::unique_ptr<CudaKernel> make_kernel(Kind kind, const TensorType& type,
                                        const ramet_device::DrawArguments& arguments) {
  const CudaSource source = cuda_device_source(
      "draw.cu", {"Type=" + storage_of(type.dtype), "kKind=" + std::to_string(static_cast<int>(kind))});
  return std::make_unique<StreamKernel>(
      [arguments, function = load_cuda_function(source, "draw")](CudaStream& stream, const KernelOperands& operands) {
        ramet_device::DrawArguments all = arguments;
        if (!operands.inputs.empty()) all.counter = static_cast<const long long*>(operands.inputs[0]);
        all.output = operands.outputs[0];
        if (all.elements > 0) stream.launch(function, grid_for(all.elements), all);
      });
}

ramet_device::DrawArguments arguments_of(const TensorType& type, const RandomStream& stream, double a, double b) {
  ramet_device::DrawArguments arguments{};
  arguments.elements = arguments.logical_elements = type.elements();
  arguments.key0 = stream.key()[0], arguments.key1 = stream.key()[1], arguments.tensor = stream.tensor();
  arguments.a = a, arguments.b = b;
  return arguments;
}

std::unique_ptr<CudaKernel> make_draw(const NodeSignature& node) {
  const DrawForm form = draw_form(node);
  const Position position(node);
  const RandomStream stream(form.seed, RandomPurpose::kDraw, 0, form.tensor);
  ramet_device::DrawArguments arguments = arguments_of(node.outputs[0], stream, form.a, form.b);
  arguments.logical_elements = position.logical_elements();
  arguments.placed = !position.whole();
  if (!position.whole()) arguments.place = place_of(position);
  const Kind kind = form.kind == DrawKind::kUniform  ? Kind::kUniform
                    : form.kind == DrawKind::kNormal ? Kind::kNormal
                                                     : Kind::kInteger;
  return make_kernel(kind, node.outputs[0], arguments);
}

std::string refuse_draw(const NodeSignature& node) {
  const Position position(node);
  return position.whole() ? "" : refuse_place(position);
}

std::unique_ptr<CudaKernel> make_random(const NodeSignature& node) {
  const RandomKind kind = random_kind_from_name(node.attributes.get_string("kind"));
  const RandomStream stream(static_cast<uint64_t>(node.attributes.get_int("seed")), RandomPurpose::kInit, 0,
                            static_cast<uint64_t>(node.attributes.get_int("tensor")));
  const Kind drawn = kind == RandomKind::kUniform  ? Kind::kUniform
                     : kind == RandomKind::kNormal ? Kind::kNormal
                                                   : Kind::kTruncatedNormal;
  return make_kernel(
      drawn, node.outputs[0],
      arguments_of(node.outputs[0], stream, node.attributes.get_float("a"), node.attributes.get_float("b")));
}

}  // namespace

void add_cuda_random(Backend& backend) {
  add_card(backend, {.op = "draw", .refuse = refuse_draw, .make = make_draw});
  add_card(backend, {.op = "random", .refuse = [](const NodeSignature&) { return ""; }, .make = make_random});
}

}  // namespace ramet::kernel::cuda
