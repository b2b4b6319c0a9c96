// Rows of block-sparse matrices: softmax and its gradient, embeddings and theirs.

#include "ramet/kernel/cpu/sparse_rows.h"

#include <algorithm>
#include <cmath>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/sparse_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::SparseRows;
using cpu::SparseSoftmax;

/// The elements of one row of a matrix that are kept, side by side, and where they come from.
template <typename T>
class KeptRow {
 public:
  KeptRow(const SparseSoftmax& call, int64_t line, int64_t i) : call_(call), i_(i) {
    const int64_t parts = call.lines.parts;
    first_ = call.lines.first[line * parts], last_ = call.lines.first[(line + 1) * parts];
    row_ = line * call.grid.block_rows + i;
  }

  /// Calls visit(place in the values, column, elements) for the kept elements of each block.
  template <typename Visit>
  HWY_INLINE void each(const Visit& visit) const {
    const int64_t wide = call_.grid.block_columns;
    for (int64_t e = first_; e < last_; ++e) {
      const int64_t column = call_.lines.other[e];
      int64_t begin = 0, end = wide;
      if (call_.keep == ops::SparseKeep::kLower) end = std::clamp<int64_t>(row_ + 1 - column, 0, wide);
      if (call_.keep == ops::SparseKeep::kUpper) begin = std::clamp<int64_t>(row_ - column, 0, wide);
      if (begin < end) visit(place(e) + begin, column + begin, end - begin);
    }
  }

  int64_t gather(const void* source, float* to) const {
    int64_t count = 0;
    each([&](int64_t at, int64_t, int64_t some) HWY_ATTR {
      ConvertRow(static_cast<const T*>(source) + at, some, to + count);
      count += some;
    });
    return count;
  }

  /// Zeros where nothing is kept.
  void scatter(const float* from) const {
    T* out = static_cast<T*>(call_.out);
    if (call_.keep != ops::SparseKeep::kAll)
      for (int64_t e = first_; e < last_; ++e) std::fill_n(out + place(e), call_.grid.block_columns, T{});
    each([&](int64_t at, int64_t, int64_t some) HWY_ATTR {
      ConvertRow<float, T>(from, some, out + at);
      from += some;
    });
  }

  /// The sum of numbers that lie as `gather` puts them, lane by column (ops/sparse.h).
  float sum(const float* from) const {
    HWY_ALIGN float lane[kReduceLanes] = {};
    each([&](int64_t, int64_t column, int64_t some) HWY_ATTR {
      const Df d;
      const int64_t step = vector_lanes();
      int64_t j = 0;
      for (; j < some && ((column + j) % kReduceLanes != 0 || some - j < kReduceLanes); ++j)
        lane[(column + j) % kReduceLanes] += from[j];
      for (; some - j >= kReduceLanes; j += kReduceLanes)
        for (int64_t l = 0; l < kReduceLanes; l += step)
          hn::Store(hn::Add(hn::Load(d, lane + l), hn::LoadU(d, from + j + l)), d, lane + l);
      for (; j < some; ++j) lane[(column + j) % kReduceLanes] += from[j];
      from += some;
    });
    for (int64_t width = kReduceLanes / 2; width > 0; width /= 2)
      for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
  }

 private:
  int64_t place(int64_t e) const {
    return int64_t{call_.lines.block[e]} * call_.grid.block_elements() + i_ * call_.grid.block_columns;
  }

  const SparseSoftmax& call_;
  int64_t i_, row_ = 0, first_ = 0, last_ = 0;
};

template <typename T>
void softmax_row(const SparseSoftmax& call, int64_t line, int64_t i, float* row) {
  const Df d;
  const KeptRow<T> kept(call, line, i);
  const int64_t count = kept.gather(call.values, row);
  float top = -INFINITY;
  for (int64_t j = 0; j < count; ++j)
    if (row[j] > top || row[j] != row[j]) top = row[j];
  const Vf shift = hn::Set(d, top);
  walk_vectors(count, [&](int64_t j, int64_t some) HWY_ATTR {
    store_part(ExpNegative(d, hn::Sub(load_part(row + j, some), shift)), row + j, some);
  });
  const Vf sum = hn::Set(d, kept.sum(row));
  walk_vectors(count, [&](int64_t j, int64_t some)
                          HWY_ATTR { store_part(hn::Div(load_part(row + j, some), sum), row + j, some); });
  kept.scatter(row);
}

/// `row` has room for the row of y, of dy and of their products.
template <typename T>
void softmax_grad_row(const SparseSoftmax& call, int64_t line, int64_t i, float* row) {
  const Df d;
  const KeptRow<T> kept(call, line, i);
  float *dy = row + call.grid.columns(), *products = dy + call.grid.columns();
  const int64_t count = kept.gather(call.values, row);
  kept.gather(call.dy, dy);
  walk_vectors(count, [&](int64_t j, int64_t some) HWY_ATTR {
    store_part(hn::Mul(load_part(row + j, some), load_part(dy + j, some)), products + j, some);
  });
  const Vf sum = hn::Set(d, kept.sum(products));
  walk_vectors(count, [&](int64_t j, int64_t some) HWY_ATTR {
    store_part(hn::Mul(load_part(row + j, some), hn::Sub(load_part(dy + j, some), sum)), products + j, some);
  });
  kept.scatter(products);
}

/// Calls visit(place in the values, column) for the stored pieces of row `number` of a table.
template <typename Visit>
HWY_INLINE void each_piece(const SparseRows& call, int64_t number, const Visit& visit) {
  const int64_t line = number / call.grid.block_rows, i = number % call.grid.block_rows;
  const int64_t last = call.lines.first[(line + 1) * call.lines.parts];
  for (int64_t e = call.lines.first[line * call.lines.parts]; e < last; ++e)
    visit(int64_t{call.lines.block[e]} * call.grid.block_elements() + i * call.grid.block_columns,
          int64_t{call.lines.other[e]});
}

}  // namespace

/// Lines [begin, end) of one matrix; `room` takes three rows.
void SparseSoftmaxLines(const SparseSoftmax& call, int64_t begin, int64_t end, float* room) {
  WithStorage(call.dtype, call.values, [&](auto* typed) {
    using T = std::remove_cvref_t<decltype(*typed)>;
    for (int64_t line = begin; line < end; ++line)
      for (int64_t i = 0; i < call.grid.block_rows; ++i)
        call.dy ? softmax_grad_row<T>(call, line, i, room) : softmax_row<T>(call, line, i, room);
  });
}

/// The rows of numbers [begin, end).
void SparseGatherRows(const SparseRows& call, int64_t begin, int64_t end) {
  WithStorage(call.dtype, call.from, [&](auto* values) {
    using T = std::remove_cvref_t<decltype(*values)>;
    T nothing;  // added to any number, it leaves the number's bits
    store_element(&nothing, call.dtype, 0, -0.0);
    for (int64_t i = begin; i < end; ++i) {
      T* out = static_cast<T*>(call.out) + i * call.grid.columns();
      std::fill_n(out, call.grid.columns(), call.rows[i] < 0 ? nothing : T{});
      if (call.rows[i] < 0) continue;
      each_piece(call, call.rows[i], [&](int64_t at, int64_t column) HWY_ATTR {
        std::copy_n(values + at, call.grid.block_columns, out + column);
      });
    }
  });
}

/// The sums of lines [begin, end) of blocks.
void SparseScatterLines(const SparseRows& call, int64_t begin, int64_t end) {
  float* out = static_cast<float*>(call.out);
  const int64_t wide = call.grid.block_columns, first = begin * call.grid.block_rows, last = end * call.grid.block_rows;
  for (int64_t line = begin; line < end; ++line)
    for (int64_t i = 0; i < call.grid.block_rows; ++i)
      each_piece(call, line * call.grid.block_rows + i,
                 [&](int64_t at, int64_t) { std::fill_n(out + at, wide, 0.0f); });
  WithStorage(call.dtype, call.from, [&](auto* rows) {
    for (int64_t i = 0; i < call.count; ++i) {
      const int64_t number = call.rows[i];
      if (number < first || number >= last) continue;
      each_piece(call, number, [&](int64_t at, int64_t column) HWY_ATTR {
        const auto* row = rows + i * call.grid.columns() + column;
        walk_vectors(wide, [&](int64_t j, int64_t some) HWY_ATTR {
          store_part(hn::Add(load_part(out + at + j, some), load_part(row + j, some)), out + at + j, some);
        });
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(SparseSoftmaxLines);
HWY_EXPORT(SparseGatherRows);
HWY_EXPORT(SparseScatterLines);

namespace {

int64_t softmax_room(const SparseGrid& grid) { return cpu::scratch_bytes(3 * grid.columns() * 4); }

int64_t softmax_scratch(const NodeSignature& node, int threads) {
  const ops::SparseSoftmaxForm form = ops::sparse_softmax_form(node);
  return cpu::lines_scratch(form.grid, false, form.groups, threads) + threads * softmax_room(form.grid);
}

void run_softmax(const NodeSignature& node, const ops::SparseSoftmaxForm& form, const KernelContext& context) {
  const bool gradient = node.inputs.size() == 3;
  cpu::Room room(context.scratch);
  const cpu::SparsePatterns patterns(node, gradient ? 2 : 1, form.grid, false, form.groups, context, room);
  const int64_t size = softmax_room(form.grid) / 4, lines = cpu::line_count(form.grid, false);
  float* rows = room.take<float>(size * context.team.size());
  const DType dtype = node.inputs[0].dtype;
  const auto bytes = static_cast<int64_t>(size_of(dtype)) * form.grid.stored_elements();
  for (int64_t group = 0; group < form.groups.count; ++group)
    patterns.clear_unused(group, static_cast<int64_t>(size_of(dtype)) * form.grid.block_elements(),
                          static_cast<char*>(context.outputs[0]) + group * bytes);
  context.team.split(form.groups.count * lines, 1, [&](int64_t begin, int64_t end, int rank) {
    for (int64_t at = begin; at < end;) {
      const int64_t group = at / lines, last = std::min(end, (group + 1) * lines);
      const cpu::SparseSoftmax call{
          .grid = form.grid,
          .lines = patterns.of(group),
          .keep = form.keep,
          .dtype = dtype,
          .values = static_cast<const char*>(context.inputs[0]) + group * bytes,
          .dy = gradient ? static_cast<const char*>(context.inputs[1]) + group * bytes : nullptr,
          .out = static_cast<char*>(context.outputs[0]) + group * bytes};
      HWY_DYNAMIC_DISPATCH(SparseSoftmaxLines)(call, at - group * lines, last - group * lines, rows + rank * size);
      at = last;
    }
  });
}

int64_t rows_scratch(const NodeSignature& node, int threads) {
  const ops::SparseRowsForm form = ops::sparse_rows_form(node);
  return cpu::lines_scratch(form.grid, false, {}, threads) + cpu::scratch_bytes(form.numbers * 8);
}

void run_rows(const NodeSignature& node, const Position& position, const ops::SparseRowsForm& form, bool scatters,
              const KernelContext& context) {
  cpu::Room room(context.scratch);
  const cpu::SparsePatterns patterns(node, 2, form.grid, false, {}, context, room);
  const auto* narrow = static_cast<const int32_t*>(context.inputs[0]);
  const auto* wide = static_cast<const int64_t*>(context.inputs[0]);
  auto* rows = room.take<int64_t>(form.numbers);
  for (int64_t i = 0; i < form.numbers; ++i)
    rows[i] =
        ops::sparse_row_here(node, position, form.grid, i, node.inputs[0].dtype == DType::kI64 ? wide[i] : narrow[i]);
  // Halves of numbers are moved as any 16 bits are.
  const DType dtype = node.inputs[1].dtype == DType::kU16 ? DType::kBF16 : node.inputs[1].dtype;
  const cpu::SparseRows call{.grid = form.grid,
                             .lines = patterns.of(0),
                             .rows = rows,
                             .count = form.numbers,
                             .dtype = dtype,
                             .from = context.inputs[1],
                             .out = context.outputs[0]};
  if (scatters) patterns.clear_unused(0, form.grid.block_elements() * 4, context.outputs[0]);
  context.team.split(scatters ? call.lines.lines : form.numbers, 1, [&](int64_t begin, int64_t end, int) {
    if (scatters)
      HWY_DYNAMIC_DISPATCH(SparseScatterLines)(call, begin, end);
    else
      HWY_DYNAMIC_DISPATCH(SparseGatherRows)(call, begin, end);
  });
}

std::string refuse_types(const NodeSignature& node) {
  for (const auto* types : {&node.inputs, &node.outputs})
    for (const TensorType& type : *types)
      if (is_floating(type.dtype) && !cpu::has_vector_loads(type.dtype)) return "not for " + type.text();
  return "";
}

}  // namespace

void add_cpu_sparse_rows(Backend& backend) {
  for (const char* op : {"sparse_softmax", "sparse_softmax_grad"})
    cpu::add_hwy(
        backend, op, refuse_types,
        [](const NodeSignature& node, int) {
          cpu_level();
          return [node, form = ops::sparse_softmax_form(node)](const KernelContext& context) {
            run_softmax(node, form, context);
          };
        },
        softmax_scratch);
  for (const bool scatters : {false, true})
    cpu::add_hwy(
        backend, scatters ? "sparse_scatter_add" : "sparse_gather", refuse_types,
        [scatters](const NodeSignature& node, int) {
          cpu_level();
          return [node, scatters, position = Position(node), form = ops::sparse_rows_form(node)](
                     const KernelContext& context) { run_rows(node, position, form, scatters, context); };
        },
        rows_scratch);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
