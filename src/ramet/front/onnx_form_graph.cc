// Ops of graph networks as ONNX: sums over the edges of a row become scatters.
#include <cmath>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/neighbors.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;
using Dims = std::vector<int64_t>;

/// Edges [B, E] that are sorted by row, in ONNX's words.
class Edges {
 public:
  Edges(OnnxWriter& to, const std::string& ptr, int64_t batch, int64_t rows, int64_t edges)
      : to_(to), batch_(batch), rows_(rows), edges_(edges) {
    // The row of an edge is how many rows end at its place or before: a running count of the ends.
    const std::string none = to_.expand(to_.number(DType::kI64, 0), {batch, edges + 1});
    const std::string ends = to_.slice(to_.cast(ptr, DType::kI64), 1, 1, rows + 1);
    const std::string ones = to_.expand(to_.number(DType::kI64, 1), {batch, rows});
    const std::string counts =
        to_.node("ScatterElements", {none, ends, ones}, {onnx_integer("axis", 1), onnx_text("reduction", "add")});
    row_ = to_.slice(to_.node("CumSum", {counts, to_.number(DType::kI64, 1)}), 1, 0, edges);
    real_ = to_.node("Less", {row_, to_.number(DType::kI64, static_cast<double>(rows))});
  }

  const std::string& rows() const { return row_; }
  /// [B, E, 1...] whether a place holds an edge, of `rank` dimensions.
  std::string real(int rank) { return to_.reshape(real_, wide(rank)); }
  /// Indices [B, E], 0 at places without an edge.
  std::string safe(const std::string& index) {
    return to_.node("Where", {real_, to_.cast(index, DType::kI64), to_.number(DType::kI64, 0)});
  }
  std::string own_row() { return safe(row_); }
  /// Rows [B, V, ...] at indices [B, E] -> [B, E, ...]
  std::string gather(const std::string& rows, const std::string& index) {
    const std::string tuples = to_.reshape(index, {batch_, edges_, 1});
    return to_.node("GatherND", {rows, tuples}, {onnx_integer("batch_dims", 1)});
  }
  /// Values [B, E, rest...] joined over the edges of each row: [B, rows, rest...].
  std::string join(const std::string& values, const Dims& rest, DType dtype, const char* by, double first) {
    Dims from = {batch_, rows_ + 1}, each = {batch_, edges_};
    from.insert(from.end(), rest.begin(), rest.end()), each.insert(each.end(), rest.begin(), rest.end());
    const std::string begin = to_.expand(to_.number(dtype, first), from);
    const std::string index = to_.expand(to_.reshape(row_, wide(static_cast<int>(each.size()))), each);
    const std::string made =
        to_.node("ScatterElements", {begin, index, values}, {onnx_integer("axis", 1), onnx_text("reduction", by)});
    return to_.slice(made, 1, 0, rows_);
  }
  /// How many edges each row has, [B, rows, 1...] of `rank` dimensions.
  std::string counts(const std::string& ptr, DType dtype, int rank) {
    const std::string ends = to_.slice(ptr, 1, 1, rows_ + 1), begins = to_.slice(ptr, 1, 0, rows_);
    Dims dims = {batch_, rows_};
    dims.resize(static_cast<size_t>(rank), 1);
    return to_.reshape(to_.cast(to_.node("Sub", {ends, begins}), dtype), dims);
  }

 private:
  Dims wide(int rank) const {
    Dims dims = {batch_, edges_};
    dims.resize(static_cast<size_t>(rank), 1);
    return dims;
  }

  OnnxWriter& to_;
  int64_t batch_, rows_, edges_;
  std::string row_{}, real_{};
};

/// The dimensions behind those of samples and edges (or rows).
Dims rest_of(const Shape& shape) { return {shape.dims().begin() + 2, shape.dims().end()}; }

Names segment_sum(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentForm form = ops::segment_form(op.signature);
  Edges edges(to, op.in[1], form.batch, form.rows, form.edges);
  std::string made = edges.join(op.in[0], rest_of(op.input(0).shape), op.input(0).dtype, "add", 0);
  if (op.attributes().get_bool_or("mean", false)) {
    const DType dtype = op.input(0).dtype;
    made = to.node("Div", {made, to.node("Max", {edges.counts(op.in[1], dtype, op.rank(0)), to.number(dtype, 1)})});
  }
  return {made};
}

Names segment_extreme(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentForm form = ops::segment_form(op.signature);
  const bool least = op.attributes().get_bool_or("least", false);
  const DType dtype = op.input(0).dtype;
  Edges edges(to, op.in[1], form.batch, form.rows, form.edges);
  const std::string made =
      edges.join(op.in[0], rest_of(op.input(0).shape), dtype, least ? "min" : "max", least ? INFINITY : -INFINITY);
  const std::string none = to.node("Equal", {edges.counts(op.in[1], dtype, op.rank(0)), to.number(dtype, 0)});
  return {to.node("Where", {none, to.number(dtype, 0), made})};
}

Names segment_softmax(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentForm form = ops::segment_form(op.signature);
  const DType dtype = op.input(0).dtype;
  const Dims rest = rest_of(op.input(0).shape);
  Edges edges(to, op.in[1], form.batch, form.rows, form.edges);
  const std::string row = edges.own_row();
  const std::string most = edges.gather(edges.join(op.in[0], rest, dtype, "max", -INFINITY), row);
  const std::string real = edges.real(op.rank(0)), zero = to.number(dtype, 0);
  const std::string power = to.node("Exp", {to.node("Where", {real, to.node("Sub", {op.in[0], most}), zero})});
  const std::string sums = edges.gather(edges.join(power, rest, dtype, "add", 0), row);
  return {to.node("Where", {real, to.node("Div", {power, sums}), zero})};
}

Names segment_expand(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentForm form = ops::expand_form(op.signature);
  Edges edges(to, op.in[1], form.batch, form.rows, form.edges);
  const std::string made = edges.gather(op.in[0], edges.own_row());
  return {to.node("Where", {edges.real(op.rank(0)), made, to.number(op.input(0).dtype, 0)})};
}

Names neighbor_sum(OnnxWriter& to, const OnnxOp& op) {
  const ops::NeighborForm form = ops::neighbor_sum_form(op.signature);
  const DType dtype = op.input(0).dtype;
  Edges edges(to, op.in[form.transposed ? 5 : 2], form.batch, form.to(), form.edges);
  std::string messages = edges.gather(op.in[0], edges.safe(op.in[form.transposed ? 3 : 1]));
  if (form.weighted) {
    std::string weight = op.in[6];
    if (form.transposed) weight = edges.gather(weight, edges.safe(op.in[4]));
    const int64_t heads = std::max<int64_t>(1, form.heads);
    messages = to.reshape(messages, {form.batch, form.edges, heads, form.width / heads});
    messages = to.node("Mul", {messages, to.reshape(weight, {form.batch, form.edges, heads, 1})});
    messages = to.reshape(messages, {form.batch, form.edges, form.width});
  }
  return {edges.join(messages, {form.width}, dtype, "add", 0)};
}

Names neighbor_dot(OnnxWriter& to, const OnnxOp& op) {
  const ops::NeighborForm form = ops::neighbor_dot_form(op.signature);
  const DType dtype = op.input(0).dtype;
  Edges edges(to, op.in[3], form.batch, form.targets, form.edges);
  const std::string a = edges.gather(op.in[0], edges.own_row());
  const std::string b = edges.gather(op.in[1], edges.safe(op.in[2]));
  const int64_t heads = std::max<int64_t>(1, form.heads);
  std::string made = to.reshape(to.node("Mul", {a, b}), {form.batch, form.edges, heads, form.width / heads});
  made = to.reduce("ReduceSum", made, {3}, false);
  made = to.node("Where", {edges.real(3), made, to.number(dtype, 0)});
  return {form.heads > 0 ? made : to.reshape(made, {form.batch, form.edges})};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_graph_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"segment_sum", segment_sum, true},         {"segment_extreme", segment_extreme, true},
      {"segment_softmax", segment_softmax, true}, {"segment_expand", segment_expand, true},
      {"neighbor_sum", neighbor_sum, true},       {"neighbor_dot", neighbor_dot, true},
  };
  return table;
}

}  // namespace ramet::front
