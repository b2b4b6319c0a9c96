// Losses of classes as ONNX.
#include <cmath>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/softmax_statistics.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;

Names statistics(OnnxWriter& to, const OnnxOp& op) {
  const int64_t rows = op.input(0).shape.dim(0), all = op.input(0).shape.dim(1);
  const int64_t classes = op.attributes().get_int_or("classes", all);
  if (op.output().shape.dim(1) != 1) op.refuse("classes that are summed in parts have no form");
  const DType f32 = DType::kF32;
  std::string logits = op.input(0).dtype == f32 ? op.in[0] : to.cast(op.in[0], f32);
  if (classes < all) logits = to.slice(logits, 1, 0, classes);
  const std::string zero = to.number(f32, 0), label = to.cast(op.in[1], DType::kI64);
  const std::string none = to.node("Less", {label, to.number(DType::kI64, 0)});
  const std::string safe = to.node("Where", {none, to.number(DType::kI64, 0), label});
  const std::string most = to.reduce("ReduceMax", logits, {1}, true);
  // Of a row of -infinity alone nothing is added.
  const std::string base = to.node("Where", {to.node("IsInf", {most}), zero, most});
  const std::string sum = to.reduce("ReduceSum", to.node("Exp", {to.node("Sub", {logits, base})}), {1}, true);
  const std::string lacks = to.reshape(none, {rows, 1}), column = to.reshape(safe, {rows, 1});
  const std::string found = to.node("GatherElements", {logits, column}, {onnx_integer("axis", 1)});
  const std::string logit = to.node("Where", {lacks, zero, found});
  const std::string first = to.node("ArgMax", {logits}, {onnx_integer("axis", 1), onnx_integer("keepdims", 1)});
  const std::string kind = to.node("Where", {to.node("Equal", {first, column}), to.number(f32, 2), to.number(f32, 1)});
  const std::string flag = to.node("Where", {lacks, zero, kind});
  const std::string made = to.node("Concat", {most, sum, logit, flag}, {onnx_integer("axis", 1)});
  return {to.reshape(made, {rows, 1, ops::kStatistics})};
}

/// What softmax_statistics gives, of one chunk of classes.
struct Rows {
  std::string log_sum, loss, counted, correct;

  Rows(OnnxWriter& to, const OnnxOp& op) {
    const Shape& shape = op.input(0).shape;
    if (shape.dim(1) != 1) op.refuse("classes that are summed in parts have no form");
    const auto column = [&](int64_t which) {
      return to.reshape(to.slice(op.in[0], 2, which, which + 1), {shape.dim(0)});
    };
    const std::string zero = to.number(DType::kF32, 0), label = column(ops::kChunkLabel);
    const std::string has = to.node("Greater", {label, zero});
    log_sum = to.node("Add", {column(ops::kChunkMost), to.node("Log", {column(ops::kChunkSum)})});
    loss = to.node("Where", {has, to.node("Sub", {log_sum, column(ops::kChunkLogit)}), zero});
    counted = to.cast(has, DType::kF32);
    correct = to.cast(to.node("Equal", {label, to.number(DType::kF32, 2)}), DType::kF32);
  }
};

Names cross_entropy(OnnxWriter& to, const OnnxOp& op) {
  const Rows rows(to, op);
  const std::string count = to.reduce("ReduceSum", rows.counted, {0}, false);
  const std::string sum = to.reduce("ReduceSum", rows.loss, {0}, false);
  const std::string loss = to.node("Div", {sum, to.node("Max", {count, to.number(DType::kF32, 1)})});
  return {loss, count, to.reduce("ReduceSum", rows.correct, {0}, false)};
}

Names cross_entropy_rows(OnnxWriter& to, const OnnxOp& op) {
  const Rows rows(to, op);
  return {rows.log_sum, rows.loss, rows.counted};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_loss_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"softmax_statistics", statistics, true},
      {"cross_entropy", cross_entropy, true},
      {"cross_entropy_rows", cross_entropy_rows, true},
  };
  return table;
}

}  // namespace ramet::front
