#include <cmath>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/softmax_statistics.h"

namespace ramet::kernel {
namespace {

using Sum = SoftmaxSum<double>;

double exponential(double x) { return std::exp(x); }

double statistic(const ReferenceOperands& operands, int64_t row, int64_t chunk, int which) {
  return operands.get(0, (row * operands.input_type(0).shape[1] + chunk) * kStatistics + which);
}

void run_rows(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  for (int64_t row = 0; row < shape[0]; ++row) {
    const auto value = [&](int64_t chunk, int which) { return statistic(operands, row, chunk, which); };
    const Sum all = Sum::of_row(shape[1], value, exponential);
    const double log_sum = std::log(all.sum);
    double loss = 0, counted = 0;
    for (int64_t chunk = 0; chunk < shape[1]; ++chunk)
      if (value(chunk, kChunkLabel) != 0) loss = all.most - value(chunk, kChunkLogit) + log_sum, counted = 1;
    operands.set(0, row, all.most + log_sum);
    operands.set(1, row, loss);
    operands.set(2, row, counted);
  }
}

void run_rows_grad(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  for (int64_t row = 0; row < shape[0]; ++row) {
    const double dlse = operands.get(1, row), dloss = operands.get(2, row);
    const Sum sum = Sum::of_row(
        shape[1], [&](int64_t chunk, int which) { return statistic(operands, row, chunk, which); }, exponential);
    bool counted = false;
    for (int64_t chunk = 0; chunk < shape[1]; ++chunk)
      counted = counted || statistic(operands, row, chunk, kChunkLabel) != 0;
    const double all = counted ? dlse + dloss : dlse;
    for (int64_t chunk = 0; chunk < shape[1]; ++chunk) {
      const auto set = [&](int which, double value) {
        operands.set(0, (row * shape[1] + chunk) * kStatistics + which, value);
      };
      const double dsum = all == 0 ? 0 : sum.share(statistic(operands, row, chunk, kChunkMost), exponential) * all;
      set(kChunkMost, dsum * statistic(operands, row, chunk, kChunkSum));
      set(kChunkSum, dsum);
      set(kChunkLogit, statistic(operands, row, chunk, kChunkLabel) != 0 ? -dloss : 0);
      set(kChunkLabel, 0);
    }
  }
}

}  // namespace

void add_reference_loss_rows(Backend& backend) {
  add_reference(backend, "cross_entropy_rows", run_rows);
  add_reference(backend, "cross_entropy_rows_grad", run_rows_grad);
}

}  // namespace ramet::kernel
