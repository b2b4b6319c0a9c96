// Layer norm, RMS norm, their gradients, and softmax: a warp a row (device/rows.cuh).

#include <algorithm>

#include "ramet/kernel/cuda/device/reduce_arguments.h"
#include "ramet/kernel/cuda/device/rows_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/row_launch.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel::cuda {
namespace {

struct Rows {
  int64_t count = 0, width = 0;
};
Rows rows_of(const TensorType& type) {
  const int64_t width = type.shape.dim(-1);
  return {width == 0 ? 0 : type.elements() / width, width};
}

std::string refuse_rows(const NodeSignature& node, size_t rows, std::initializer_list<size_t> vectors) {
  if (const std::string why = refuse_row_type(node.inputs[rows]); !why.empty()) return why;
  for (const size_t vector : vectors)
    if (!is_row_type(node.inputs[vector].dtype)) return "gain or bias is neither f32, bf16 nor f16";
  return "";
}

std::vector<std::string> row_definitions(const TensorType& rows, int64_t width_kept) {
  std::vector<std::string> definitions{"kRowType=" + storage_of(rows.dtype)};
  if (width_kept > 0) definitions.push_back("kRowWidth=" + std::to_string(width_kept));
  return definitions;
}

std::unique_ptr<CudaKernel> make_norm(const NodeSignature& node, bool centered) {
  const Rows rows = rows_of(node.inputs[0]);
  std::vector<std::string> definitions = row_definitions(node.inputs[0], kept_width(node.inputs[0], rows.width));
  definitions.push_back("kGainType=" + storage_of(node.inputs[1].dtype));
  definitions.push_back("kBiasType=" + storage_of(node.inputs[centered ? 2 : 1].dtype));
  const CudaFunction function =
      load_cuda_function(cuda_device_source("norm.cu", definitions), centered ? "layer_norm" : "rms_norm");
  const auto epsilon = static_cast<float>(node.attributes.get_float("epsilon"));
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    if (rows.count == 0) return;
    ramet_device::NormArguments call{};
    call.a = operands.inputs[0];
    call.gain = operands.inputs[1];
    call.bias = centered ? operands.inputs[2] : nullptr;
    call.out = operands.outputs[0];
    call.mean = centered ? static_cast<float*>(operands.outputs[1]) : nullptr;
    call.rstd = static_cast<float*>(operands.outputs[centered ? 2 : 1]);
    call.rows = rows.count;
    call.width = static_cast<int>(rows.width);
    call.epsilon = epsilon;
    stream.launch(function, grid_of_rows(rows.count), call);
  });
}

ramet_device::RowChunks chunks_of(const NodeSignature& node) {
  const Rows rows = rows_of(node.inputs[1]);
  const int64_t extent = node.inputs[1].shape.rank() < 2 ? 1 : node.inputs[1].shape.dim(-2);
  if (extent == 0 || rows.count == 0) return {0, 1, 1, 0};
  const int64_t chunks = node.attributes.get_int_or("chunks", 1), of_chunk = rows.count / chunks;
  return {of_chunk, extent / chunks, chunks, (of_chunk + ramet_device::kReduceRows - 1) / ramet_device::kReduceRows};
}

bool in_order(const NodeSignature& node) { return node.attributes.get_bool_or("in_order", false); }

/// Sums of blocks of rows for gain (and bias).
int64_t norm_grad_scratch(const NodeSignature& node, bool centered) {
  const ramet_device::RowChunks chunks = chunks_of(node);
  return in_order(node) ? 0 : chunks.chunks * chunks.blocks * node.inputs[1].shape.dim(-1) * (centered ? 8 : 4);
}

/// The functions of a gradient, and how they are launched.
struct NormGrad {
  bool centered = true, in_order = false;
  int64_t width = 0;
  int threads = 256;
  int64_t shared_bytes = 0;
  ramet_device::RowChunks chunks{};
  CudaFunction rows{}, sums{}, combine{};

  void launch(CudaStream& stream, const KernelOperands& operands) const {
    auto* dgain = static_cast<float*>(operands.outputs[1]);
    float* dbias = centered ? static_cast<float*>(operands.outputs[2]) : nullptr;
    if (chunks.rows == 0) {
      stream.fill(dgain, 0, width * 4);
      if (centered) stream.fill(dbias, 0, width * 4);
      return;
    }
    ramet_device::NormGradArguments call = arguments(operands);
    if (in_order) {
      // This runs before the gradient of rows is written, because that may overwrite the values read here.
      call.gain_sums = dgain, call.bias_sums = dbias;
      stream.launch(sums, {.x = ceil_divide((width + 1) / 2, threads), .threads = threads}, call);
      call.gain_sums = call.bias_sums = nullptr;
    } else {
      call.gain_sums = static_cast<float*>(operands.scratch);
      call.bias_sums = centered ? call.gain_sums + chunks.chunks * chunks.blocks * width : nullptr;
    }
    stream.launch(rows, {.x = chunks.chunks * chunks.blocks, .threads = threads, .dynamic_shared_bytes = shared_bytes},
                  call);
    if (in_order) return;
    // The sums for the bias lie behind those for the gain.
    launch_combine(stream, combine,
                   {call.gain_sums, dgain, dbias, centered ? 2 : 1, chunks.chunks, chunks.blocks, width});
  }

  ramet_device::NormGradArguments arguments(const KernelOperands& operands) const {
    ramet_device::NormGradArguments call{};
    call.dy = operands.inputs[0];
    call.a = operands.inputs[1];
    call.gain = operands.inputs[2];
    call.mean = centered ? static_cast<const float*>(operands.inputs[3]) : nullptr;
    call.rstd = static_cast<const float*>(operands.inputs[centered ? 4 : 3]);
    call.out = operands.outputs[0];
    call.chunks = chunks;
    call.width = static_cast<int>(width);
    return call;
  }
};

std::string refuse_norm_grad(const NodeSignature& node) {
  if (node.inputs[0].dtype != node.inputs[1].dtype) return "operands of different types";
  const ramet_device::RowChunks chunks = chunks_of(node);
  if (const std::string why = refuse_combine(chunks.chunks, chunks.blocks); !why.empty()) return why;
  return refuse_rows(node, 1, {2});
}

std::unique_ptr<CudaKernel> make_norm_grad(const NodeSignature& node, bool centered) {
  NormGrad made{.centered = centered, .in_order = in_order(node), .width = node.inputs[1].shape.dim(-1)};
  made.chunks = chunks_of(node);
  // Rows go by way of shared memory where two blocks of threads have room for theirs: two stages of eight rows.
  constexpr int64_t kRoom = 110 << 10, kStagedRows = 8;
  const int64_t width = kept_width(node.inputs[1], made.width, 4096),
                row_bytes = width * static_cast<int64_t>(size_of(node.inputs[1].dtype)),
                room = 4 * kStagedRows * row_bytes;
  const bool staged = width > 0 && row_bytes % 16 == 0 && room <= kRoom;
  made.shared_bytes = staged ? room : 0;
  made.threads = staged || made.width <= 512 ? 256 : 512;
  std::vector<std::string> definitions = row_definitions(node.inputs[1], width);
  definitions.push_back("kGainType=" + storage_of(node.inputs[2].dtype));
  definitions.push_back("kBlockThreads=" + std::to_string(made.threads));
  if (staged) definitions.push_back("kStaged=1");
  const CudaSource source = cuda_device_source("norm_grad.cu", definitions);
  made.rows = load_cuda_function(source, centered ? "layer_norm_grad" : "rms_norm_grad", made.shared_bytes);
  if (made.in_order)
    made.sums = load_cuda_function(source, centered ? "layer_norm_sums" : "rms_norm_sums");
  else
    made.combine = load_combine("JoinSum", DType::kF32);
  return std::make_unique<StreamKernel>(
      [made](CudaStream& stream, const KernelOperands& operands) { made.launch(stream, operands); });
}

std::string refuse_softmax(const NodeSignature& node) {
  const int rank = node.inputs[0].shape.rank();
  if (normalize_axis(node.attributes.get_int("axis"), rank, node.text()) != rank - 1)
    return "not over the last dimension";
  return refuse_row_type(node.inputs[0]);
}

std::unique_ptr<CudaKernel> make_softmax(const NodeSignature& node, bool logarithm) {
  const Rows rows = rows_of(node.inputs[0]);
  const CudaFunction function = load_cuda_function(
      cuda_device_source("softmax.cu", row_definitions(node.inputs[0], kept_width(node.inputs[0], rows.width))),
      logarithm ? "log_softmax" : "softmax");
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    if (rows.count == 0) return;
    const ramet_device::SoftmaxArguments call{operands.inputs[0], operands.outputs[0], rows.count,
                                              static_cast<int>(rows.width)};
    stream.launch(function, grid_of_rows(rows.count), call);
  });
}

}  // namespace

void add_cuda_rows(Backend& backend) {
  for (const bool centered : {true, false}) {
    add_card(backend, {.op = centered ? "layer_norm" : "rms_norm",
                       .refuse =
                           [=](const NodeSignature& node) {
                             return centered ? refuse_rows(node, 0, {1, 2}) : refuse_rows(node, 0, {1});
                           },
                       .make = [=](const NodeSignature& node) { return make_norm(node, centered); },
                       .aliases = {{0, 0}}});
    add_card(backend, {.op = centered ? "layer_norm_grad" : "rms_norm_grad",
                       .refuse = refuse_norm_grad,
                       .make = [=](const NodeSignature& node) { return make_norm_grad(node, centered); },
                       .scratch = [=](const NodeSignature& node) { return norm_grad_scratch(node, centered); },
                       .aliases = {{0, 0}, {1, 0}}});
    const bool logarithm = !centered;
    add_card(backend, {.op = logarithm ? "log_softmax" : "softmax",
                       .refuse = refuse_softmax,
                       .make = [=](const NodeSignature& node) { return make_softmax(node, logarithm); },
                       .aliases = {{0, 0}}});
  }
}

}  // namespace ramet::kernel::cuda
