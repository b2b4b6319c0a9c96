// Ops of graph networks as ONNX: sums over the edges of a row become scatters.
#include <cmath>
#include <numbers>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/halo.h"
#include "ramet/ops/neighbors.h"
#include "ramet/ops/pair_distance.h"
#include "ramet/ops/paths.h"
#include "ramet/ops/radial.h"
#include "ramet/ops/segment_heads.h"

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
  /// Indices [B, E] for `join`, which leaves places without an edge out.
  std::string target(const std::string& index) {
    return to_.node("Where",
                    {real_, to_.cast(index, DType::kI64), to_.number(DType::kI64, static_cast<double>(rows_))});
  }
  /// Rows [B, V, ...] at indices [B, E] -> [B, E, ...]
  std::string gather(const std::string& rows, const std::string& index) {
    const std::string tuples = to_.reshape(index, {batch_, edges_, 1});
    return to_.node("GatherND", {rows, tuples}, {onnx_integer("batch_dims", 1)});
  }
  /// Values [B, E, rest...] joined over the edges of each row, or of each row of `index`: [B, rows, rest...].
  std::string join(const std::string& values, const Dims& rest, DType dtype, const char* by, double first,
                   const std::string& index = "") {
    Dims from = {batch_, rows_ + 1}, each = {batch_, edges_};
    from.insert(from.end(), rest.begin(), rest.end()), each.insert(each.end(), rest.begin(), rest.end());
    const std::string begin = to_.expand(to_.number(dtype, first), from);
    const std::string rows = to_.reshape(index.empty() ? row_ : index, wide(static_cast<int>(each.size())));
    const std::string made = to_.node("ScatterElements", {begin, to_.expand(rows, each), values},
                                      {onnx_integer("axis", 1), onnx_text("reduction", by)});
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

// --- heads over edges (ops/segment_heads.h) ---

Edges edges_of(OnnxWriter& to, const OnnxOp& op, const ops::SegmentHeadsForm& form) {
  return {to, op.in[2], form.batch, form.rows, form.edges};
}
/// Rows of heads [B, H, N, F] given to each edge of a row: [B, E, H, F].
std::string rows_of_edges(OnnxWriter& to, const OnnxOp& op, Edges& edges) {
  return edges.gather(to.transpose(op.in[0], {0, 2, 1, 3}), edges.own_row());
}

Names segment_dot(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentHeadsForm form = ops::segment_dot_form(op.signature);
  Edges edges = edges_of(to, op, form);
  const std::string x = to.reshape(op.in[1], {form.batch, form.edges, 1, form.width});
  const std::string made = to.reduce("ReduceSum", to.node("Mul", {rows_of_edges(to, op, edges), x}), {3}, false);
  return {to.node("Where", {edges.real(3), made, to.number(op.input(0).dtype, 0)})};
}

Names segment_combine(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentHeadsForm form = ops::segment_combine_form(op.signature);
  Edges edges = edges_of(to, op, form);
  const std::string x = to.reshape(op.in[0], {form.batch, form.edges, 1, form.width});
  const std::string weight = to.reshape(op.in[1], {form.batch, form.edges, form.heads, 1});
  const std::string made =
      edges.join(to.node("Mul", {x, weight}), {form.heads, form.width}, op.input(0).dtype, "add", 0);
  return {to.transpose(made, {0, 2, 1, 3})};
}

Names segment_blend(OnnxWriter& to, const OnnxOp& op) {
  const ops::SegmentHeadsForm form = ops::segment_blend_form(op.signature);
  Edges edges = edges_of(to, op, form);
  const std::string weight = to.reshape(op.in[1], {form.batch, form.edges, form.heads, 1});
  const std::string made = to.reduce("ReduceSum", to.node("Mul", {rows_of_edges(to, op, edges), weight}), {2}, false);
  return {to.node("Where", {edges.real(3), made, to.number(op.input(0).dtype, 0)})};
}

/// Rows [B, E, width] times the weights of their edges, [B, E] or [B, E, heads].
std::string weighted(OnnxWriter& to, const std::string& rows, const std::string& weight, const Dims& edges,
                     int64_t width, int64_t heads) {
  heads = std::max<int64_t>(1, heads);
  const std::string apart = to.reshape(rows, {edges[0], edges[1], heads, width / heads});
  const std::string made = to.node("Mul", {apart, to.reshape(weight, {edges[0], edges[1], heads, 1})});
  return to.reshape(made, {edges[0], edges[1], width});
}

/// For each edge the sums of a[own row] * b[index] over the features of each head; [B, E] with 0 heads.
std::string dots(OnnxWriter& to, Edges& edges, const Names& rows, const std::string& index, const Dims& sizes,
                 int64_t width, int64_t heads, DType dtype) {
  const std::string a = edges.gather(rows[0], edges.own_row()), b = edges.gather(rows[1], edges.safe(index));
  const int64_t parts = std::max<int64_t>(1, heads);
  std::string made = to.reshape(to.node("Mul", {a, b}), {sizes[0], sizes[1], parts, width / parts});
  made = to.reduce("ReduceSum", made, {3}, false);
  made = to.node("Where", {edges.real(3), made, to.number(dtype, 0)});
  return heads > 0 ? made : to.reshape(made, sizes);
}

Names neighbor_sum(OnnxWriter& to, const OnnxOp& op) {
  const ops::NeighborForm form = ops::neighbor_sum_form(op.signature);
  Edges edges(to, op.in[form.transposed ? 5 : 2], form.batch, form.to(), form.edges);
  std::string messages = edges.gather(op.in[0], edges.safe(op.in[form.transposed ? 3 : 1]));
  if (form.weighted) {
    std::string weight = op.in[6];
    if (form.transposed) weight = edges.gather(weight, edges.safe(op.in[4]));
    messages = weighted(to, messages, weight, {form.batch, form.edges}, form.width, form.heads);
  }
  return {edges.join(messages, {form.width}, op.input(0).dtype, "add", 0)};
}

Names neighbor_dot(OnnxWriter& to, const OnnxOp& op) {
  const ops::NeighborForm form = ops::neighbor_dot_form(op.signature);
  Edges edges(to, op.in[3], form.batch, form.targets, form.edges);
  return {dots(to, edges, {op.in[0], op.in[1]}, op.in[2], {form.batch, form.edges}, form.width, form.heads,
               op.input(0).dtype)};
}

// --- messages along paths ---

/// The complex products of runs of `width` features, whose first halves are real parts: [B, E, F].
std::string rotated(OnnxWriter& to, const std::string& a, const std::string& b, const ops::PathForm& form) {
  const int64_t half = form.width / 2;
  const Dims runs = {form.batch, form.edges, form.features / form.width, form.width};
  const std::string x = to.reshape(a, runs), y = to.reshape(b, runs);
  const auto part = [&](const std::string& of, int64_t at) { return to.slice(of, 3, at * half, (at + 1) * half); };
  const auto product = [&](int64_t i, int64_t j) { return to.node("Mul", {part(x, i), part(y, j)}); };
  const std::string real = to.node("Sub", {product(0, 0), product(1, 1)});
  const std::string imaginary = to.node("Add", {product(0, 1), product(1, 0)});
  const std::string made = to.node("Concat", {real, imaginary}, {onnx_integer("axis", 3)});
  return to.reshape(made, {form.batch, form.edges, form.features});
}

/// What each edge sends, [B, E, F].
std::string path_messages(OnnxWriter& to, const OnnxOp& op, const ops::PathForm& form, Edges& edges) {
  const std::string x = edges.gather(op.in[1], edges.safe(op.in[3]));
  const std::string relation = edges.gather(op.in[2], edges.safe(op.in[4]));
  switch (form.message) {
    case ops::PathMessage::kProduct: return to.node("Mul", {x, relation});
    case ops::PathMessage::kSum: return to.node("Add", {x, relation});
    case ops::PathMessage::kRotation: break;
  }
  return rotated(to, x, relation, form);
}

/// Sums with each row's own message. Of statistics also sums of squares, the greatest and the least; which edges these
/// come from, only gradients read.
Names path_sums(OnnxWriter& to, const OnnxOp& op) {
  const ops::PathForm form = ops::path_form(op.signature);
  Edges edges(to, op.in[5], form.batch, form.rows, form.edges);
  const std::string& own = op.in[0];
  const std::string messages = path_messages(to, op, form, edges);
  const auto join = [&](const std::string& values, const char* by, double first) {
    return edges.join(values, {form.features}, DType::kF32, by, first);
  };
  Names made = {to.node("Add", {own, join(messages, "add", 0)})};
  if (!form.statistics) return made;
  const auto squared = [&](const std::string& of) { return to.node("Mul", {of, of}); };
  made.push_back(to.node("Add", {squared(own), join(squared(messages), "add", 0)}));
  made.push_back(to.node("Max", {own, join(messages, "max", -INFINITY)}));
  made.push_back(to.node("Min", {own, join(messages, "min", INFINITY)}));
  return made;
}

// --- one graph in clusters ---

/// Rows of all clusters by a table that the node carries; behind them stands a row of zeros for places without one.
Names halo_rows(OnnxWriter& to, const OnnxOp& op) {
  const ops::HaloRowsForm form = ops::halo_rows_form(op.signature);
  const int64_t all = form.clusters * form.rows;
  const DType dtype = op.input(0).dtype;
  const std::string rows = to.reshape(op.in[0], {all, form.width});
  const std::string zeros = to.expand(to.number(dtype, 0), {1, form.width});
  HostTensor table({DType::kI64, {form.clusters, form.places}});
  for (int64_t i = 0; i < table.elements(); ++i)
    store_integer(table.data.data(), DType::kI64, i, form.table[i] < 0 ? all : form.table[i]);
  const std::string padded = to.node("Concat", {rows, zeros}, {onnx_integer("axis", 0)});
  const std::string made = to.node("Gather", {padded, to.constant(table)}, {onnx_integer("axis", 0)});
  return {to.reshape(made, op.output().shape.dims())};
}

/// The rows of a cluster and, behind them, those of other clusters.
std::string all_rows(OnnxWriter& to, const std::string& own, const std::string& far) {
  return to.node("Concat", {own, far}, {onnx_integer("axis", 1)});
}

Names halo_sum(OnnxWriter& to, const OnnxOp& op) {
  const ops::HaloForm form = ops::halo_sum_form(op.signature);
  Edges edges(to, op.in[3], form.clusters, form.rows, form.edges);
  std::string messages = edges.gather(all_rows(to, op.in[0], op.in[1]), edges.safe(op.in[2]));
  if (form.weighted) messages = weighted(to, messages, op.in[6], {form.clusters, form.edges}, form.width, form.heads);
  return {edges.join(messages, {form.width}, op.input(0).dtype, "add", 0)};
}

Names halo_dot(OnnxWriter& to, const OnnxOp& op) {
  const ops::HaloForm form = ops::halo_dot_form(op.signature);
  Edges edges(to, op.in[4], form.clusters, form.rows, form.edges);
  return {dots(to, edges, {op.in[0], all_rows(to, op.in[1], op.in[2])}, op.in[3], {form.clusters, form.edges},
               form.width, form.heads, op.input(0).dtype)};
}

// --- pairs within a cutoff ---

/// Pairs [B, P] of rows, whose filter says how much each gives to the other.
class Pairs {
 public:
  Pairs(OnnxWriter& to, const OnnxOp& op, const ops::RadialForm& form)
      : to_(to), op_(op), form_(form), edges_(to, op.in[2], form.batch, form.rows, form.pairs) {}

  /// [B, P, 1]
  std::string distance() {
    return to_.node("Where", {edges_.real(3), to_.reshape(op_.in[1], {form_.batch, form_.pairs, 1}), number(0)});
  }
  std::string number(double value) { return to_.number(DType::kF32, value); }
  std::string apply(const char* op, const std::string& a, double b) { return to_.node(op, {a, number(b)}); }

  /// Each row's sum of the filters [B, P, F] of its pairs times the other row.
  std::string sum(const std::string& filter) {
    const std::string first = edges_.own_row(), second = edges_.safe(op_.in[3]);
    const auto given = [&](const std::string& rows, const std::string& target) {
      const std::string messages = to_.node("Mul", {filter, edges_.gather(op_.in[0], rows)});
      return edges_.join(messages, {form_.width}, DType::kF32, "add", 0, target);
    };
    return to_.node("Add", {given(second, ""), given(first, edges_.target(op_.in[3]))});
  }

 private:
  OnnxWriter& to_;
  const OnnxOp& op_;
  const ops::RadialForm& form_;
  Edges edges_;
};

/// Cubic polynomials through four rows of the table (ops/radial.h, table_cell).
Names table_filter(OnnxWriter& to, const OnnxOp& op) {
  const ops::RadialForm form = ops::table_filter_form(op.signature);
  Pairs pairs(to, op, form);
  const std::string place = pairs.apply("Mul", pairs.distance(), ops::table_density(form));
  const std::string middle =
      to.node("Clip", {to.node("Floor", {place}), pairs.number(1), pairs.number(static_cast<double>(form.points - 3))});
  const std::string t = to.node("Sub", {place, middle});
  const std::string before = pairs.apply("Add", t, 1), after = pairs.apply("Sub", t, 1), far = pairs.apply("Sub", t, 2);
  const std::string index = to.reshape(to.cast(middle, DType::kI64), {form.batch, form.pairs});
  const std::vector<std::pair<Names, double>> shares = {{{t, after, far}, -1.0 / 6},
                                                        {{before, after, far}, 0.5},
                                                        {{before, t, far}, -0.5},
                                                        {{before, t, after}, 1.0 / 6}};
  std::string filter;
  for (size_t k = 0; k < shares.size(); ++k) {
    const auto& [factors, scale] = shares[k];
    const std::string product = to.node("Mul", {to.node("Mul", {factors[0], factors[1]}), factors[2]});
    const std::string at = to.node("Add", {index, to.number(DType::kI64, static_cast<double>(k) - 1)});
    const std::string row = to.node("Gather", {op.in[4], at}, {onnx_integer("axis", 0)});
    const std::string part = to.node("Mul", {pairs.apply("Mul", product, scale), row});
    filter = k == 0 ? part : to.node("Add", {filter, part});
  }
  return {pairs.sum(filter)};
}

/// Two layers on Gaussians of the distance.
Names network_filter(OnnxWriter& to, const OnnxOp& op) {
  const ops::RadialForm form = ops::network_filter_form(op.signature);
  Pairs pairs(to, op, form);
  const double step = form.cutoff / static_cast<double>(form.gaussians - 1);
  HostTensor centres({DType::kF32, {form.gaussians}});
  for (int64_t k = 0; k < form.gaussians; ++k) centres.set(k, static_cast<double>(k));
  const std::string distance = pairs.distance();
  const std::string apart = to.node("Sub", {pairs.apply("Mul", distance, 1 / step), to.constant(centres)});
  const std::string basis = to.node("Exp", {pairs.apply("Mul", to.node("Mul", {apart, apart}), -0.5)});
  const auto layer = [&](const std::string& x, size_t weight) {
    return to.node("Add", {to.node("MatMul", {x, to.transpose(op.in[weight], {1, 0})}), op.in[weight + 1]});
  };
  const std::string hidden = pairs.apply("Sub", to.node("Softplus", {layer(basis, 4)}), std::numbers::ln2);
  const std::string wave = to.node("Cos", {pairs.apply("Mul", distance, std::numbers::pi / form.cutoff)});
  const std::string envelope = pairs.apply("Mul", pairs.apply("Add", wave, 1), 0.5);
  return {pairs.sum(to.node("Mul", {layer(hidden, 6), envelope}))};
}

// --- distances of rows and columns ---

/// Norms of a - sum of w b over rows and columns at once, [G, M, K, D] before their sums.
Names pair_distance(OnnxWriter& to, const OnnxOp& op) {
  const ops::PairForm form = ops::pair_form(op.signature);
  const DType f32 = DType::kF32;
  const auto operand = [&](size_t i, const Dims& dims) {
    return to.reshape(op.input(i).dtype == f32 ? op.in[i] : to.cast(op.in[i], f32), dims);
  };
  const int64_t g = form.groups, m = form.rows, k = form.columns, d = form.width;
  const std::string a = operand(0, {g, m, 1, d}), b = operand(1, {g, 1, k, form.column_width()});
  const std::string w = form.weighted ? operand(2, {g, m, 1, form.column_width()}) : "";
  std::string x = a;
  for (int64_t term = 0; term < form.terms; ++term) {
    const auto part = [&](const std::string& of) {
      return form.terms == 1 ? of : to.slice(of, 3, term * d, (term + 1) * d);
    };
    const bool plain = !form.weighted || form.norm == ops::PairNorm::kBox;
    x = to.node("Sub", {x, plain ? part(b) : to.node("Mul", {part(w), part(b)})});
  }
  const auto squared = [&](const std::string& of) { return to.node("Mul", {of, of}); };
  const auto sum = [&](const std::string& of) { return Names{to.reduce("ReduceSum", of, {3}, false)}; };
  switch (form.norm) {
    case ops::PairNorm::kL1: return sum(to.node("Abs", {x}));
    case ops::PairNorm::kSquares: return sum(squared(x));
    case ops::PairNorm::kComplex:
      return sum(
          to.node("Sqrt", {to.node("Add", {squared(to.slice(x, 3, 0, d / 2)), squared(to.slice(x, 3, d / 2, d))})}));
    case ops::PairNorm::kBox: break;
  }
  const std::string size = to.node("Abs", {x}), one = to.number(f32, 1), half = to.number(f32, 0.5);
  const std::string more = to.node("Add", {w, one}), limit = to.node("Mul", {w, half});
  const std::string outer = to.node("Mul", {limit, to.node("Sub", {more, to.node("Reciprocal", {more})})});
  const std::string outside = to.node("Sub", {to.node("Mul", {size, more}), outer});
  return sum(to.node("Where", {to.node("LessOrEqual", {size, limit}), to.node("Div", {size, more}), outside}));
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_graph_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"segment_sum", segment_sum, true},
      {"segment_extreme", segment_extreme, true},
      {"segment_softmax", segment_softmax, true},
      {"segment_expand", segment_expand, true},
      {"segment_dot", segment_dot, true},
      {"segment_combine", segment_combine, true},
      {"segment_blend", segment_blend, true},
      {"neighbor_sum", neighbor_sum, true},
      {"neighbor_dot", neighbor_dot, true},
      {"path_sum", path_sums, true},
      {"path_statistics", path_sums, true},
      {"halo_rows", halo_rows, true},
      {"halo_sum", halo_sum, true},
      {"halo_dot", halo_dot, true},
      {"table_filter_sum", table_filter, true},
      {"network_filter_sum", network_filter, true},
      {"pair_distance", pair_distance, true},
  };
  return table;
}

}  // namespace ramet::front
