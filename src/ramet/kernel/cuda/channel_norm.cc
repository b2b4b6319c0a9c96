// Moments of channels and the sums of their gradients, where all channels of a row lie together
// (device/channel_norm.cu).

#include "ramet/ops/channel_norm.h"

#include "ramet/kernel/cuda/device/channel_norm_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/row_launch.h"

namespace ramet::kernel::cuda {
namespace {

using ops::ChannelForm;
using ramet_device::ChannelArguments;

static_assert(ramet_device::kMomentRows == ops::kMomentRows);

bool takes_moments(const NodeSignature& node) { return node.inputs.size() < 3; }
const TensorType& rows_of(const NodeSignature& node) { return node.inputs[takes_moments(node) ? 0 : 1]; }

std::string refuse(const NodeSignature& node) {
  const TensorType& a = rows_of(node);
  if (!is_row_type(a.dtype)) return "neither f32, bf16 nor f16";
  if (node.inputs[0].dtype != a.dtype) return "operands of different types";
  const ChannelForm form = ops::channel_form(node);
  if (!form.channels_last && form.space != 1) return "channels do not lie together";
  return a.elements() == 0 || form.channels == 0 ? "no elements" : "";
}

ChannelArguments arguments_of(const NodeSignature& node) {
  const ChannelForm form = ops::channel_form(node);
  ChannelArguments call{};
  call.segments = form.each_sample ? form.samples : 1;
  call.rows = form.each_sample ? form.space : form.samples * form.space;
  call.channels = form.channels;
  call.count_of_blocks = ceil_divide(call.rows, ops::kMomentRows);
  call.neighbours = form.channels / form.sums();
  call.moments = takes_moments(node) ? 1 : 0;
  call.own_means = !takes_moments(node) && node.inputs[2].shape[0] != 1 ? 1 : 0;
  return call;
}

int64_t shifts_of(const ChannelArguments& call) { return call.moments ? call.segments * call.channels : 0; }
int64_t numbers_of(const ChannelArguments& call) { return call.segments * call.count_of_blocks * 2 * call.channels; }
int64_t scratch_of(const NodeSignature& node) {
  const ChannelArguments call = arguments_of(node);
  return (shifts_of(call) + numbers_of(call)) * 4;
}

struct ChannelFunctions {
  CudaFunction shifts, blocks, tree, results;
};

std::unique_ptr<CudaKernel> make(const NodeSignature& node) {
  const CudaSource source = cuda_device_source("channel_norm.cu", {"kRowType=" + storage_of(rows_of(node).dtype)});
  const ChannelFunctions functions{
      load_cuda_function(source, "channel_shifts"), load_cuda_function(source, "channel_blocks"),
      load_cuda_function(source, "channel_tree"), load_cuda_function(source, "channel_results")};
  return std::make_unique<StreamKernel>(
      [functions, made = arguments_of(node)](CudaStream& stream, const KernelOperands& operands) {
        ChannelArguments call = made;
        call.a = operands.inputs[call.moments ? 0 : 1];
        if (operands.inputs.size() == 2) call.used = static_cast<const int*>(operands.inputs[1]);
        if (!call.moments) call.dy = operands.inputs[0], call.mean = static_cast<const float*>(operands.inputs[2]);
        call.shifts = static_cast<float*>(operands.scratch);
        call.blocks = call.shifts + shifts_of(call);
        call.first = static_cast<float*>(operands.outputs[0]);
        call.second = static_cast<float*>(operands.outputs[1]);
        if (call.moments) stream.launch(functions.shifts, grid_for(call.segments * call.channels, 128), call);
        stream.launch(functions.blocks, grid_for(call.segments * call.count_of_blocks * call.channels, 128), call);
        if (call.count_of_blocks > 1)
          stream.launch(functions.tree, {.x = call.segments * ceil_divide(call.channels, 32), .threads = 256}, call);
        stream.launch(functions.results, grid_for(call.segments * call.channels / call.neighbours, 128), call);
      });
}

}  // namespace

void add_cuda_channel_norm(Backend& backend) {
  for (const char* op : {"channel_moments", "channel_sums"})
    add_card(backend, {.op = op, .refuse = refuse, .make = make, .scratch = scratch_of});
}

}  // namespace ramet::kernel::cuda
