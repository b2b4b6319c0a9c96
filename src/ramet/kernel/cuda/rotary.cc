#include "ramet/ops/rotary.h"
#include "ramet/kernel/cuda/device/rotary_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"

namespace ramet::kernel::cuda {
namespace {

/// Pairs that a thread has: of 16 bytes of their first elements, where packs of them do not lie across anything.
int64_t pairs_at_once(const RotaryForm& form, DType dtype) {
  int64_t pairs = 16 / static_cast<int64_t>(size_of(dtype));
  while (form.pairs % pairs != 0 || form.head_size % pairs != 0 || form.sample_stride % pairs != 0) pairs /= 2;
  while (form.neighbours && form.head_size % (2 * pairs) != 0 && pairs > 1) pairs /= 2;
  return pairs;
}

std::unique_ptr<CudaKernel> make(const NodeSignature& node) {
  const RotaryForm form = rotary_form(node);
  const DType dtype = node.inputs[0].dtype;
  const int64_t pairs = pairs_at_once(form, dtype), rest = form.head_size - 2 * form.pairs;
  const int64_t head_packs = form.pairs / pairs + (rest + pairs - 1) / pairs;
  ramet_device::RotaryArguments arguments{};
  arguments.packs = form.batch * form.sequence * form.heads * head_packs;
  arguments.head_packs = ramet_device::divider_of(head_packs);
  arguments.heads = ramet_device::divider_of(form.heads);
  arguments.sequence = ramet_device::divider_of(form.sequence);
  arguments.pairs = form.pairs, arguments.head_size = form.head_size, arguments.sample_stride = form.sample_stride;
  arguments.sign = form.back ? -1.0f : 1.0f;
  if (arguments.packs == 0) return std::make_unique<StreamKernel>([](CudaStream&, const KernelOperands&) {});
  const CudaSource source = cuda_device_source(
      "rotary.cu",
      {"Type=" + storage_of(dtype), "kPairs=" + std::to_string(pairs), "kNeighbours=" + std::to_string(form.neighbours),
       "kEvenHeads=" + std::to_string(form.head_size % 2 == 0),
       std::string("kFewPacks=") + (arguments.packs < (int64_t{1} << 31) ? "true" : "false")});
  return std::make_unique<StreamKernel>(
      [arguments, function = load_cuda_function(source, "rotate")](CudaStream& stream, const KernelOperands& operands) {
        ramet_device::RotaryArguments all = arguments;
        all.a = operands.inputs[0];
        all.cosine = static_cast<const float*>(operands.inputs[1]);
        all.sine = static_cast<const float*>(operands.inputs[2]);
        all.out = operands.outputs[0];
        stream.launch(function, grid_for(all.packs), all);
      });
}

}  // namespace

void add_cuda_rotary(Backend& backend) {
  add_card(backend, {.op = "rotary",
                     .refuse =
                         [](const NodeSignature& node) {
                           return size_of(node.inputs[0].dtype) == 1 ? "8-bit floating types are not for this kernel"
                                                                     : "";
                         },
                     .make = make,
                     .aliases = {{0, 0}}});
}

}  // namespace ramet::kernel::cuda
