// Cross-entropy with integer labels: statistics of chunks of logits (device/loss.cu), and what they give
// (device/cross_entropy.cu).

#include <algorithm>

#include "ramet/kernel/cuda/device/loss_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/row_launch.h"
#include "ramet/ops/position.h"
#include "ramet/ops/softmax_statistics.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::JoinArguments;
using ramet_device::StatisticsArguments;

std::string refuse_statistics(const NodeSignature& node) {
  if (!is_row_type(node.inputs[0].dtype)) return "logits are neither f32, bf16 nor f16";
  const Position position(node);
  if (position.along(1).size() > ramet_device::kMostClassRuns) return "classes of too many parts";
  return position.logical()[1] > INT32_MAX / 2 ? "too many classes" : "";
}

/// The shapes and classes of a node.
StatisticsArguments arguments_of(const NodeSignature& node, bool gradient) {
  const Position position(node);
  StatisticsArguments call{};
  call.rows = node.inputs[0].shape[0];
  call.chunks = static_cast<int>((gradient ? node.inputs[2] : node.outputs[0]).shape[1]);
  call.width = static_cast<int>(node.inputs[0].shape[1]) / call.chunks;
  call.classes = static_cast<int>(class_count(node, position));
  for (const Position::Run& run : position.along(1))
    call.run[call.runs++] = {static_cast<int>(run.local), static_cast<int>(run.logical), static_cast<int>(run.length)};
  return call;
}

class StatisticsKernel : public CudaKernel {
 public:
  StatisticsKernel(const NodeSignature& node, bool gradient)
      : where_(node.text()), gradient_(gradient), call_(arguments_of(node, gradient)) {
    // A warp has a chunk, or a block a wide one.
    constexpr int kWide = 2048;
    const bool wide = call_.width > kWide;
    const int64_t tasks = call_.rows * call_.chunks;
    std::vector<std::string> definitions{"kRowType=" + storage_of(node.inputs[0].dtype)};
    const int64_t width = gradient ? 0 : kept_width(node.inputs[0], call_.width, kWide);
    if (width > 0) definitions.push_back("kRowWidth=" + std::to_string(width));
    if (wide) definitions.push_back(call_.width % 2 == 0 ? "kPaired=1" : "kPaired=0");
    function_ = load_cuda_function(cuda_device_source(wide ? "loss_wide.cu" : "loss.cu", definitions),
                                   gradient ? "softmax_statistics_grad" : "softmax_statistics");
    grid_ = grid_of_rows(tasks);
    if (wide) grid_ = {.x = std::min<int64_t>(tasks, kProcessors * 64), .threads = ramet_device::kWideThreads};
  }

  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    if (call_.rows == 0) return;
    StatisticsArguments call = call_;
    call.logits = operands.inputs[0];
    call.labels = static_cast<const int*>(operands.inputs[1]);
    if (gradient_) {
      call.statistics_in = static_cast<const float*>(operands.inputs[2]);
      call.slopes = static_cast<const float*>(operands.inputs[3]);
      call.gradient = operands.outputs[0];
    } else {
      call.statistics = static_cast<float*>(operands.outputs[0]);
    }
    call.faults = stream.faults();
    call.kernel = stream.number_of(*this);
    stream.launch(function_, grid_, call);
  }

  Error error_of(const CudaFault& fault) const override {
    return Error({.what = "a label is no class",
                  .where = where_ + ", row " + std::to_string(fault.kind),
                  .found = std::to_string(fault.found),
                  .expected = "less than " + std::to_string(fault.limit) + ", or -1 to ignore the row"},
                 ErrorKind::kFailure);
  }

 private:
  std::string where_;
  bool gradient_;
  StatisticsArguments call_;
  CudaFunction function_{};
  CudaGrid grid_{};
};

std::string refuse_joins(const NodeSignature& node) {
  const Shape& statistics = node.inputs[0].shape;
  return refuse_combine(1, std::max(statistics[1], ceil_divide(statistics[0], ops::kReduceRows)));
}

JoinArguments join_arguments(const NodeSignature& node, const KernelOperands& operands) {
  JoinArguments call{};
  call.statistics = static_cast<const float*>(operands.inputs[0]);
  call.rows = node.inputs[0].shape[0];
  call.chunks = static_cast<int>(node.inputs[0].shape[1]);
  return call;
}

/// A row a thread.
CudaGrid grid_of_joins(int64_t rows) { return grid_for(rows, 64); }

/// Losses and states of rows, as the scratch has them.
int64_t join_scratch(const NodeSignature& node) { return node.inputs[0].shape[0] * 5; }

std::unique_ptr<CudaKernel> make_join(const NodeSignature& node) {
  const CudaSource source = cuda_device_source("cross_entropy.cu");
  const CudaFunction rows = load_cuda_function(source, "join_rows"), mean = load_cuda_function(source, "mean_of_rows");
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    JoinArguments call = join_arguments(node, operands);
    call.losses = static_cast<float*>(operands.scratch);
    call.states = reinterpret_cast<unsigned char*>(call.losses + call.rows);
    if (call.rows > 0) stream.launch(rows, grid_of_joins(call.rows), call);
    const ramet_device::MeanArguments all{call.losses,
                                          call.states,
                                          static_cast<float*>(operands.outputs[0]),
                                          static_cast<float*>(operands.outputs[1]),
                                          static_cast<float*>(operands.outputs[2]),
                                          call.rows,
                                          node.attributes.get_bool_or("in_order", false) ? 1 : 0};
    stream.launch(mean, {.x = 1, .threads = 256}, all);
  });
}

/// A kernel that is one function of rows of statistics; `fill` says what it is given.
std::unique_ptr<CudaKernel> make_of_rows(const NodeSignature& node, const char* name,
                                         void (*fill)(const KernelOperands& operands, JoinArguments& call)) {
  const CudaFunction function = load_cuda_function(cuda_device_source("cross_entropy.cu"), name);
  return std::make_unique<StreamKernel>([=](CudaStream& stream, const KernelOperands& operands) {
    JoinArguments call = join_arguments(node, operands);
    fill(operands, call);
    if (call.rows > 0) stream.launch(function, grid_of_joins(call.rows), call);
  });
}

void fill_join_grad(const KernelOperands& operands, JoinArguments& call) {
  call.count = static_cast<const float*>(operands.inputs[1]);
  call.dloss = static_cast<const float*>(operands.inputs[2]);
  call.slopes = static_cast<float*>(operands.outputs[0]);
}

void fill_rows(const KernelOperands& operands, JoinArguments& call) {
  call.lse = static_cast<float*>(operands.outputs[0]);
  call.losses = static_cast<float*>(operands.outputs[1]);
  call.counted = static_cast<float*>(operands.outputs[2]);
}

void fill_rows_grad(const KernelOperands& operands, JoinArguments& call) {
  call.dlse = static_cast<const float*>(operands.inputs[1]);
  call.dlosses = static_cast<const float*>(operands.inputs[2]);
  call.slopes = static_cast<float*>(operands.outputs[0]);
}

}  // namespace

void add_cuda_loss(Backend& backend) {
  for (const bool gradient : {false, true})
    add_card(backend,
             {.op = gradient ? "softmax_statistics_grad" : "softmax_statistics",
              .refuse = refuse_statistics,
              .make = [gradient](const NodeSignature& node) -> std::unique_ptr<CudaKernel> {
                return std::make_unique<StatisticsKernel>(node, gradient);
              },
              .aliases = gradient ? std::vector<std::pair<int, int>>{{0, 0}} : std::vector<std::pair<int, int>>{}});
  add_card(backend, {.op = "cross_entropy", .refuse = refuse_joins, .make = make_join, .scratch = join_scratch});
  add_card(backend,
           {.op = "cross_entropy_grad",
            .refuse = refuse_joins,
            .make = [](const NodeSignature& node) { return make_of_rows(node, "join_rows_grad", fill_join_grad); },
            .aliases = {{0, 0}}});
  add_card(backend, {.op = "cross_entropy_rows", .refuse = refuse_joins, .make = [](const NodeSignature& node) {
                       return make_of_rows(node, "join_rows", fill_rows);
                     }});
  add_card(backend, {.op = "cross_entropy_rows_grad",
                     .refuse = refuse_joins,
                     .make = [](const NodeSignature& node) { return make_of_rows(node, "rows_grad", fill_rows_grad); },
                     .aliases = {{0, 0}}});
}

}  // namespace ramet::kernel::cuda
