#include <cmath>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"
#include "ramet/ops/reduce_order.h"
#include "ramet/ops/softmax_statistics.h"

namespace ramet::kernel {
namespace {

/// Local class of a row's label, -1 when it is ignored or another device's. Throws Error on one that is no class.
int64_t label_of(const ReferenceOperands& operands, const Position& position, int64_t row) {
  const int64_t label = operands.get_int(1, row), classes = class_count(operands.node(), position);
  if (label >= classes)
    throw Error({.what = "a label is no class",
                 .where = operands.node().text() + ", row " + std::to_string(row),
                 .found = std::to_string(label),
                 .expected = "less than " + std::to_string(classes) + ", or -1 to ignore the row"},
                ErrorKind::kFailure);
  for (const Position::Run& run : position.along(1))
    if (label >= run.logical && label < run.logical + run.length) return run.local + label - run.logical;
  return -1;
}

/// One chunk of classes of one row.
struct Chunk {
  int64_t begin, end;  ///< elements of the logits
  int64_t padding;     ///< elements from end on that are no classes
  int64_t label;       ///< element, -1: not in it
  int64_t statistics;  ///< its first statistic
};

void for_each_chunk(const ReferenceOperands& operands, int64_t chunks, const std::function<void(const Chunk&)>& visit) {
  const Shape& shape = operands.input_type(0).shape;
  const Position position(operands.node());
  const int64_t rows = shape[0], columns = shape[1], width = columns / chunks,
                classes = class_count(operands.node(), position);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t label = label_of(operands, position, row);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = row * columns + chunk * width, at = row * columns + label;
      const int64_t real = classes_of_chunk(position, classes, chunk * width, width);
      const bool here = label >= 0 && at >= begin && at < begin + real;
      visit({begin, begin + real, width - real, here ? at : -1, (row * chunks + chunk) * kStatistics});
    }
  }
}

/// First of the greatest logits of a chunk; its end where none is a class.
int64_t greatest(const ReferenceOperands& operands, const Chunk& chunk) {
  int64_t best = chunk.begin;
  for (int64_t i = chunk.begin + 1; i < chunk.end; ++i)
    if (operands.get(0, i) > operands.get(0, best)) best = i;
  return best;
}

void run_softmax_statistics(const ReferenceOperands& operands) {
  for_each_chunk(operands, operands.output_type(0).shape[1], [&](const Chunk& chunk) {
    const int64_t best = greatest(operands, chunk);
    const double most = best < chunk.end ? operands.get(0, best) : -INFINITY, shift = most == -INFINITY ? 0 : most;
    double sum = 0;
    for (int64_t i = chunk.begin; i < chunk.end; ++i) sum += std::exp(operands.get(0, i) - shift);
    operands.set(0, chunk.statistics + kChunkMost, most);
    operands.set(0, chunk.statistics + kChunkSum, sum);
    operands.set(0, chunk.statistics + kChunkLogit, chunk.label < 0 ? 0 : operands.get(0, chunk.label));
    operands.set(0, chunk.statistics + kChunkLabel, chunk.label < 0 ? 0 : chunk.label == best ? 2 : 1);
  });
}

/// The sum's derivative is exp(x - m), but that of the greatest logit moves the sum's reference too.
void run_softmax_statistics_grad(const ReferenceOperands& operands) {
  for_each_chunk(operands, operands.input_type(2).shape[1], [&](const Chunk& chunk) {
    const auto value = [&](int input, int which) { return operands.get(input, chunk.statistics + which); };
    const double most = value(2, kChunkMost), dsum = value(3, kChunkSum), shift = most == -INFINITY ? 0 : most;
    const int64_t best = greatest(operands, chunk);
    for (int64_t i = chunk.begin; i < chunk.end; ++i) {
      double slope = dsum == 0 ? 0 : std::exp(operands.get(0, i) - shift) * dsum;
      if (i == best) slope += value(3, kChunkMost) - dsum * value(2, kChunkSum);
      if (i == chunk.label) slope += value(3, kChunkLogit);
      operands.set(0, i, slope);
    }
    for (int64_t i = chunk.end; i < chunk.end + chunk.padding; ++i) operands.set(0, i, 0);
  });
}

using Sum = SoftmaxSum<double>;

double exponential(double x) { return std::exp(x); }

void run_cross_entropy(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const int64_t rows = shape[0], chunks = shape[1];
  double loss = 0, count = 0, correct = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = [&](int64_t chunk, int which) {
      return operands.get(0, (row * chunks + chunk) * kStatistics + which);
    };
    const Sum all = Sum::of_row(chunks, value, exponential);
    int64_t first = 0;
    for (int64_t chunk = 1; chunk < chunks; ++chunk)
      if (value(chunk, kChunkMost) > value(first, kChunkMost)) first = chunk;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (value(chunk, kChunkLabel) == 0) continue;
      loss += all.most - value(chunk, kChunkLogit) + std::log(all.sum);
      count += 1;
      correct += value(chunk, kChunkLabel) == 2 && chunk == first;
    }
  }
  operands.set(0, 0, count > 0 ? loss / count : 0);
  operands.set(1, 0, count);
  operands.set(2, 0, correct);
}

void run_cross_entropy_grad(const ReferenceOperands& operands) {
  const Shape& shape = operands.input_type(0).shape;
  const int64_t rows = shape[0], chunks = shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = [&](int64_t chunk, int which) { return (row * chunks + chunk) * kStatistics + which; };
    bool counted = false;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) counted = counted || operands.get(0, at(chunk, kChunkLabel)) != 0;
    const double factor = counted ? operands.get(2, 0) / operands.get(1, 0) : 0;
    const Sum all =
        Sum::of_row(chunks, [&](int64_t chunk, int which) { return operands.get(0, at(chunk, which)); }, exponential);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const double dsum = counted ? all.share(operands.get(0, at(chunk, kChunkMost)), exponential) * factor : 0;
      operands.set(0, at(chunk, kChunkMost), counted ? dsum * operands.get(0, at(chunk, kChunkSum)) : 0);
      operands.set(0, at(chunk, kChunkSum), dsum);
      operands.set(0, at(chunk, kChunkLogit), operands.get(0, at(chunk, kChunkLabel)) != 0 ? -factor : 0);
      operands.set(0, at(chunk, kChunkLabel), 0);
    }
  }
}

}  // namespace

void add_reference_loss(Backend& backend) {
  add_reference(backend, "softmax_statistics", run_softmax_statistics);
  add_reference(backend, "softmax_statistics_grad", run_softmax_statistics_grad);
  add_reference(backend, "cross_entropy", run_cross_entropy);
  add_reference(backend, "cross_entropy_grad", run_cross_entropy_grad);
}

}  // namespace ramet::kernel
