// Ops of block-sparse matrices as ONNX: stored blocks are scattered into a dense matrix, and gathered from one.
#include <cmath>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/sparse.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;
using Dims = std::vector<int64_t>;

/// The places of stored elements in dense matrices [G, rows columns + 1], whose last element stands for unused slots.
class Stored {
 public:
  Stored(OnnxWriter& to, const ops::SparseGrid& grid, const ops::SparseGroups& groups, const std::string& index)
      : to_(to), grid_(grid), count_(groups.count) {
    const Dims slots = {groups.patterns(), grid.cells_down, grid.cells_across, grid.slots, 1, 1};
    const std::string block = to.reshape(to.cast(index, DType::kI64), slots);
    const std::string across = number(grid.blocks_across());
    // The first element of a block, from that of its cell on.
    const std::string down =
        to.node("Mul", {to.node("Div", {block, across}), number(grid.block_rows * grid.columns())});
    const std::string right = to.node("Mul", {to.node("Mod", {block, across}), number(grid.block_columns)});
    const std::string place = to.node("Add", {to.node("Add", {down, right}), elements()});
    const std::string unused = to.node("Less", {block, number(0)});
    place_ = to.node("Where", {unused, number(all()), place});
    place_ = to.reshape(place_, {groups.patterns(), grid.stored_elements()});
    if (groups.patterns() != count_) place_ = to.expand(place_, {count_, grid.stored_elements()});
  }

  /// Values [..., R, C, slots, i, j] in dense matrices [G, rows, columns], with `rest` elsewhere.
  std::string scatter(const std::string& values, DType dtype, double rest) {
    const std::string begin = to_.expand(to_.number(dtype, rest), {count_, all() + 1});
    const std::string flat = to_.reshape(values, {count_, grid_.stored_elements()});
    const std::string made = to_.node("ScatterElements", {begin, place_, flat}, {onnx_integer("axis", 1)});
    return to_.reshape(to_.slice(made, 1, 0, all()), {count_, grid_.rows(), grid_.columns()});
  }
  /// The stored elements of dense matrices, 0 in unused slots.
  std::string gather(const std::string& dense, DType dtype, const Shape& values) {
    const std::string none = to_.expand(to_.number(dtype, 0), {count_, 1});
    const std::string padded =
        to_.node("Concat", {to_.reshape(dense, {count_, all()}), none}, {onnx_integer("axis", 1)});
    return to_.reshape(to_.node("GatherElements", {padded, place_}, {onnx_integer("axis", 1)}), values.dims());
  }

 private:
  int64_t all() const { return grid_.rows() * grid_.columns(); }
  std::string number(int64_t value) { return to_.integers({value}); }

  /// Where the elements of block 0 of each cell stand: [1, R, C, 1, i, j].
  std::string elements() {
    HostTensor made({DType::kI64, {1, grid_.cells_down, grid_.cells_across, 1, grid_.block_rows, grid_.block_columns}});
    int64_t at = 0;
    for (int64_t r = 0; r < grid_.cells_down; ++r)
      for (int64_t c = 0; c < grid_.cells_across; ++c)
        for (int64_t i = 0; i < grid_.block_rows; ++i)
          for (int64_t j = 0; j < grid_.block_columns; ++j)
            store_integer(made.data.data(), DType::kI64, at++,
                          (r * grid_.cell_rows + i) * grid_.columns() + c * grid_.cell_columns + j);
    return to_.constant(made);
  }

  OnnxWriter& to_;
  const ops::SparseGrid& grid_;
  int64_t count_;
  std::string place_{};
};

std::string as(OnnxWriter& to, const std::string& a, DType from, DType type) {
  return from == type ? a : to.cast(a, type);
}

Names product(OnnxWriter& to, const OnnxOp& op) {
  const ops::SparseMatmulForm form = ops::sparse_matmul_form(op.signature);
  const DType dtype = op.input(0).dtype;
  std::string matrix = Stored(to, form.grid, form.groups, op.in[2]).scatter(op.in[1], dtype, 0);
  if (!form.transpose) matrix = to.swap_last(matrix, 3);
  const std::string x = to.reshape(op.in[0], {form.groups.count, form.tokens, form.in()});
  const std::string made = to.reshape(to.node("MatMul", {x, matrix}), form.output.shape.dims());
  return {as(to, made, dtype, form.output.dtype)};
}

Names outer(OnnxWriter& to, const OnnxOp& op) {
  const ops::SparseOuterForm form = ops::sparse_outer_form(op.signature);
  const auto operand = [&](size_t i, int64_t width) {
    return to.reshape(as(to, op.in[i], op.input(i).dtype, DType::kF32), {form.groups.count, form.tokens, width});
  };
  const std::string a = to.swap_last(operand(0, form.grid.rows()), 3);
  const std::string dense = to.node("MatMul", {a, operand(1, form.grid.columns())});
  return {Stored(to, form.grid, form.groups, op.in[2]).gather(dense, DType::kF32, op.output().shape)};
}

Names softmax(OnnxWriter& to, const OnnxOp& op) {
  const ops::SparseSoftmaxForm form = ops::sparse_softmax_form(op.signature);
  const DType dtype = op.input(0).dtype;
  Stored stored(to, form.grid, form.groups, op.in[1]);
  std::string scores = stored.scatter(op.in[0], dtype, -INFINITY);
  if (form.keep != ops::SparseKeep::kAll) {
    const auto line = [&](int64_t extent, const Dims& dims) {
      Dims numbers;
      for (int64_t i = 0; i < extent; ++i) numbers.push_back(i);
      return to.reshape(to.integers(numbers), dims);
    };
    const std::string row = line(form.grid.rows(), {form.grid.rows(), 1});
    const std::string column = line(form.grid.columns(), {1, form.grid.columns()});
    const char* seen = form.keep == ops::SparseKeep::kLower ? "LessOrEqual" : "GreaterOrEqual";
    scores = to.node("Where", {to.node(seen, {column, row}), scores, to.number(dtype, -INFINITY)});
  }
  std::string share = to.node("Softmax", {scores}, {onnx_integer("axis", -1)});
  // Of a row without an element.
  share = to.node("Where", {to.node("IsNaN", {share}), to.number(dtype, 0), share});
  return {stored.gather(share, dtype, op.output().shape)};
}

Names rows(OnnxWriter& to, const OnnxOp& op) {
  const ops::SparseRowsForm form = ops::sparse_rows_form(op.signature);
  const std::string table = Stored(to, form.grid, {}, op.in[2]).scatter(op.in[1], op.input(1).dtype, 0);
  const std::string matrix = to.reshape(table, {form.grid.rows(), form.grid.columns()});
  return {to.node("Gather", {matrix, op.in[0]}, {onnx_integer("axis", 0)})};
}

}  // namespace

const std::vector<OnnxFormEntry>& onnx_sparse_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"sparse_matmul", product, true},
      {"sparse_outer", outer, true},
      {"sparse_softmax", softmax, true},
      {"sparse_gather", rows, true},
  };
  return table;
}

}  // namespace ramet::front
