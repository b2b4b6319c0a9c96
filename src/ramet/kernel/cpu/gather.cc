// Ops that find elements by index or by order: gather, scatter_add, one_hot, argmax and argmin, cumsum, top_k.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/element_math.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

using cpu::map_steps;
using cpu::wrapped_sum;

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// Indices of either integer type.
class Indices {
 public:
  Indices(const TensorType& type, const void* data)
      : wide_(type.dtype == DType::kI64), count_(type.elements()), data_(data) {}
  int64_t count() const { return count_; }
  int64_t operator[](int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  void check(const NodeSignature& node, int64_t rows) const {
    for (int64_t i = 0; i < count_; ++i)
      if ((*this)[i] < 0 || (*this)[i] >= rows)
        throw Error({.what = "index out of range",
                     .where = node.text() + ", index position " + std::to_string(i),
                     .found = std::to_string((*this)[i]),
                     .expected = "0 to " + std::to_string(rows - 1)},
                    ErrorKind::kFailure);
  }

 private:
  bool wide_;
  int64_t count_;
  const void* data_;
};

/// Elements behind the first dimension.
int64_t row_elements(const Shape& shape) {
  int64_t elements = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) elements *= shape.dim(axis);
  return elements;
}

/// Rows [begin, end) of the result from a part of the table: those of other parts are -0, which added to any number
/// leaves its bits.
void gather_part(const Position& rows, const Indices& indices, DType dtype, int64_t begin, int64_t end,
                 const char* from, int64_t bytes, char* to) {
  char nothing[8];
  store_element(nothing, dtype, 0, -0.0);
  const int64_t size = size_in(dtype);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = rows.local_coordinate(0, indices[i]);
    if (row >= 0)
      std::memcpy(to + i * bytes, from + row * bytes, static_cast<size_t>(bytes));
    else
      for (int64_t at = 0; at < bytes; at += size) std::memcpy(to + i * bytes + at, nothing, static_cast<size_t>(size));
  }
}

void run_gather(const NodeSignature& node, const Position& rows, const KernelContext& context) {
  const TensorType& table = node.inputs[0];
  const Indices indices(node.inputs[1], context.inputs[1]);
  indices.check(node, rows.logical()[0]);
  const int64_t bytes = row_elements(table.shape) * size_in(table.dtype);
  const auto* from = static_cast<const char*>(context.inputs[0]);
  auto* to = static_cast<char*>(context.outputs[0]);
  if (bytes == 0) return;
  const bool whole = rows.logical()[0] == table.shape.dim(0);
  context.team.split(indices.count(), std::max<int64_t>(1, 16384 / bytes), [&](int64_t begin, int64_t end, int) {
    if (!whole) return gather_part(rows, indices, table.dtype, begin, end, from, bytes, to);
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * bytes, from + indices[i] * bytes, static_cast<size_t>(bytes));
  });
}

// --- scatter_add ---

constexpr int64_t kRoom = 1024;    ///< floats that a thread sums or widens at a time
constexpr int64_t kFewRows = 256;  ///< up to which threads share columns, not rows

/// Positions grouped by row, in order within each: `first[row]` .. `first[row + 1]` of `order`.
struct Groups {
  int64_t* first;
  int64_t* order;
};

/// `row_of(i)` is the row of position i, or -1 when it has none here.
template <typename RowOf>
Groups group(int64_t count, int64_t rows, int64_t* room, const RowOf& row_of) {
  const Groups groups{room, room + rows + 1};
  std::fill_n(groups.first, rows + 1, 0);
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t row = row_of(i); row >= 0) ++groups.first[row];
  std::exclusive_scan(groups.first, groups.first + rows + 1, groups.first, int64_t{0});
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t row = row_of(i); row >= 0) groups.order[groups.first[row]++] = i;
  // Each start has moved to its end: the next row's start.
  std::copy_backward(groups.first, groups.first + rows, groups.first + rows + 1);
  groups.first[0] = 0;
  return groups;
}

struct Scatter {
  DType from = DType::kF32, to = DType::kF32;
  const char* updates = nullptr;
  const char* base = nullptr;  ///< what the sums are added to, which may be `out`; null: nothing
  char* out = nullptr;
  int64_t width = 0;
  Groups groups{};

  /// Columns [begin, end) of a row without updates.
  void untouched(int64_t at, int64_t bytes) const {
    if (!base)
      std::memset(out + at, 0, static_cast<size_t>(bytes));
    else if (base != out)
      std::memcpy(out + at, base + at, static_cast<size_t>(bytes));
  }

  /// Columns [begin, end) of a row: 0 and the updates one after another, in f32; then the addend.
  void row(int64_t row, int64_t begin, int64_t end, float* room) const {
    const int64_t first = groups.first[row], last = groups.first[row + 1], size = size_in(to);
    if (first == last) return untouched((row * width + begin) * size, (end - begin) * size);
    for (int64_t at = begin; at < end; at += kRoom) {
      const int64_t count = std::min(kRoom, end - at);
      const int64_t offset = (row * width + at) * size;
      float* sums = to == DType::kF32 && !base ? reinterpret_cast<float*>(out + offset) : room;
      std::fill_n(sums, count, 0.0f);
      for (int64_t i = first; i < last; ++i) {
        const char* update = updates + (groups.order[i] * width + at) * size_in(from);
        const auto* values = reinterpret_cast<const float*>(update);
        if (from != DType::kF32) map_steps().load(from)(update, 1, count, room + kRoom), values = room + kRoom;
        map_steps().add(values, count, sums);
      }
      if (base) {
        map_steps().load(to)(base + offset, 1, count, room + kRoom);
        map_steps().add(room + kRoom, count, sums);
      }
      if (to != DType::kF32 || base) map_steps().store(to)(sums, count, out + offset);
    }
  }
};

void run_scatter_add(const NodeSignature& node, const Position& table, const KernelContext& context) {
  const int64_t rows = node.outputs[0].shape.dim(0);
  const Indices indices(node.inputs[0], context.inputs[0]);
  indices.check(node, table.logical()[0]);
  auto* rooms = static_cast<float*>(context.scratch);
  Scatter scatter{.from = node.inputs[1].dtype, .to = node.outputs[0].dtype};
  scatter.updates = static_cast<const char*>(context.inputs[1]);
  scatter.base = context.inputs.size() > 2 ? static_cast<const char*>(context.inputs[2]) : nullptr;
  scatter.out = static_cast<char*>(context.outputs[0]);
  scatter.width = row_elements(node.outputs[0].shape);
  auto* room = reinterpret_cast<int64_t*>(rooms + context.team.size() * 2 * kRoom);
  if (table.logical()[0] == rows)
    scatter.groups = group(indices.count(), rows, room, [&](int64_t i) { return indices[i]; });
  else
    scatter.groups =
        group(indices.count(), rows, room, [&](int64_t i) { return table.local_coordinate(0, indices[i]); });
  if (scatter.width == 0) return;
  if (rows <= kFewRows) {
    context.team.split(scatter.width, 64, [&](int64_t begin, int64_t end, int rank) {
      for (int64_t row = 0; row < rows; ++row) scatter.row(row, begin, end, rooms + int64_t{rank} * 2 * kRoom);
    });
    return;
  }
  context.team.split(rows, std::max<int64_t>(1, 4096 / scatter.width), [&](int64_t begin, int64_t end, int rank) {
    for (int64_t row = begin; row < end; ++row) scatter.row(row, 0, scatter.width, rooms + int64_t{rank} * 2 * kRoom);
  });
}

int64_t scatter_scratch(const NodeSignature& node, int threads) {
  return threads * 2 * kRoom * 4 + (node.outputs[0].shape.dim(0) + 1 + node.inputs[0].elements()) * 8;
}

// --- one_hot ---

void run_one_hot(const NodeSignature& node, const KernelContext& context) {
  const Indices indices(node.inputs[0], context.inputs[0]);
  const DType dtype = node.outputs[0].dtype;
  const int64_t depth = node.attributes.get_int("depth"), size = size_in(dtype);
  auto* out = static_cast<char*>(context.outputs[0]);
  char one[8];
  store_element(one, dtype, 0, 1);
  if (depth == 0) return;
  context.team.split(indices.count(), std::max<int64_t>(1, 16384 / (depth * size)),
                     [&](int64_t begin, int64_t end, int) {
                       std::memset(out + begin * depth * size, 0, static_cast<size_t>((end - begin) * depth * size));
                       for (int64_t i = begin; i < end; ++i)
                         if (indices[i] >= 0 && indices[i] < depth)
                           std::memcpy(out + (i * depth + indices[i]) * size, one, static_cast<size_t>(size));
                     });
}

// --- ops along one axis, a line at a time ---

/// A tensor as [outer, extent, inner] around one axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
  AxisView(const Shape& shape, int axis) : extent(shape.dim(axis)) {
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= shape.dim(i);
  }
  int64_t lines() const { return outer * inner; }
  /// First element of a line; its elements are `inner` apart.
  int64_t first(int64_t line) const { return line / inner * extent * inner + line % inner; }
};

/// Around the attribute `axis`, by default the last.
AxisView view_of(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  const bool last = !node.attributes.has("axis");
  return {shape, last ? shape.rank() - 1 : axis_attribute(node, "axis", shape.rank())};
}

/// Whether a stands before b among the greatest (least): NaN first.
template <typename T>
bool precedes(T a, T b, bool greatest) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(b);
  return greatest ? a > b : a < b;
}

/// Calls `visit.template operator()<T>` with the type that the dtype's elements are compared and added in.
template <typename Visit>
void with_type(DType dtype, const Visit& visit) {
  if (dtype == DType::kI64)
    visit(int64_t{});
  else if (dtype == DType::kI32)
    visit(int32_t{});
  else
    visit(float{});
}

/// A line's elements as T, at distance `stride` in memory, to `room`.
template <typename T>
const T* read_line(DType dtype, const void* data, int64_t first, int64_t stride, int64_t count, void* room) {
  const char* from = static_cast<const char*>(data) + first * size_in(dtype);
  if (stride == 1 && (!is_floating(dtype) || dtype == DType::kF32)) return reinterpret_cast<const T*>(from);
  map_steps().load(dtype)(from, stride, count, room);
  return static_cast<const T*>(room);
}

int64_t line_bytes(const NodeSignature& node) { return (view_of(node).extent * 8 + 63) / 64 * 64; }

void run_extreme(const NodeSignature& node, const KernelContext& context, bool greatest) {
  const AxisView view = view_of(node);
  const DType dtype = node.inputs[0].dtype;
  auto* out = static_cast<int32_t*>(context.outputs[0]);
  const int64_t room_bytes = line_bytes(node);
  with_type(dtype, [&]<typename T>(T) {
    context.team.split(
        view.lines(), std::max<int64_t>(1, 4096 / view.extent), [&](int64_t begin, int64_t end, int rank) {
          void* room = static_cast<char*>(context.scratch) + rank * room_bytes;
          for (int64_t line = begin; line < end; ++line) {
            const T* values = read_line<T>(dtype, context.inputs[0], view.first(line), view.inner, view.extent, room);
            int64_t best = 0;
            for (int64_t i = 1; i < view.extent; ++i)
              if (precedes(values[i], values[best], greatest)) best = i;
            out[line] = static_cast<int32_t>(best);
          }
        });
  });
}

void run_cumsum(const NodeSignature& node, const KernelContext& context) {
  const AxisView view = view_of(node);
  const DType dtype = node.inputs[0].dtype;
  const bool reverse = node.attributes.get_bool_or("reverse", false);
  const int64_t room_bytes = line_bytes(node), size = size_in(dtype);
  if (view.extent == 0) return;
  with_type(dtype, [&]<typename T>(T) {
    context.team.split(
        view.lines(), std::max<int64_t>(1, 4096 / view.extent), [&](int64_t begin, int64_t end, int rank) {
          T* sums = reinterpret_cast<T*>(static_cast<char*>(context.scratch) + rank * room_bytes);
          for (int64_t line = begin; line < end; ++line) {
            const T* values = read_line<T>(dtype, context.inputs[0], view.first(line), view.inner, view.extent, sums);
            T sum = 0;
            for (int64_t i = 0; i < view.extent; ++i) {
              const int64_t at = reverse ? view.extent - 1 - i : i;
              sums[at] = sum = wrapped_sum(sum, values[at]);
            }
            char* to = static_cast<char*>(context.outputs[0]) + view.first(line) * size;
            const cpu::StoreFunction store = map_steps().store(dtype);
            if (view.inner == 1)
              store(sums, view.extent, to);
            else
              for (int64_t i = 0; i < view.extent; ++i) store(sums + i, 1, to + i * view.inner * size);
          }
        });
  });
}

/// The indices of the k elements that stand before all others, in order; of equals the first.
template <typename T, typename Before>
void select_first(const T* values, int64_t extent, int64_t k, Before before, int32_t* order) {
  const auto precedes_at = [values, before](int32_t a, int32_t b) {
    if (before(values[a], values[b])) return true;
    return !before(values[b], values[a]) && a < b;
  };
  std::iota(order, order + k, 0);
  std::make_heap(order, order + k, precedes_at);
  for (int64_t i = k; i < extent; ++i) {
    // The last of the chosen ones is in front; an equal element comes behind it.
    if (!before(values[i], values[order[0]])) continue;
    std::pop_heap(order, order + k, precedes_at);
    order[k - 1] = static_cast<int32_t>(i);
    std::push_heap(order, order + k, precedes_at);
  }
  std::sort_heap(order, order + k, precedes_at);
}

void run_top_k(const NodeSignature& node, const KernelContext& context) {
  const AxisView view = view_of(node);
  const DType dtype = node.inputs[0].dtype;
  const int64_t extent = view.extent, k = node.attributes.get_int("k"), size = size_in(dtype), step = view.inner;
  const bool least = node.attributes.get_bool_or("least", false);
  if (k == 0 || node.inputs[0].elements() == 0) return;
  const int64_t room_bytes = line_bytes(node);
  const auto* from = static_cast<const char*>(context.inputs[0]);
  auto* to = static_cast<char*>(context.outputs[0]);
  auto* indices = static_cast<int32_t*>(context.outputs[1]);
  with_type(dtype, [&]<typename T>(T) {
    context.team.split(view.lines(), std::max<int64_t>(1, 1024 / extent), [&](int64_t begin, int64_t end, int rank) {
      char* room = static_cast<char*>(context.scratch) + rank * 2 * room_bytes;
      auto* order = reinterpret_cast<int32_t*>(room + room_bytes);
      for (int64_t line = begin; line < end; ++line) {
        const int64_t first = view.first(line), chosen = line / step * k * step + line % step;
        const T* values = read_line<T>(dtype, context.inputs[0], first, step, extent, room);
        if (least)
          select_first(values, extent, k, [](T a, T b) { return precedes(b, a, true); }, order);
        else
          select_first(values, extent, k, [](T a, T b) { return precedes(a, b, true); }, order);
        for (int64_t i = 0; i < k; ++i) {
          indices[chosen + i * step] = order[i];
          std::memcpy(to + (chosen + i * step) * size, from + (first + order[i] * step) * size,
                      static_cast<size_t>(size));
        }
      }
    });
  });
}

using Run = void (*)(const NodeSignature&, const KernelContext&);

void add(Backend& backend, const std::string& op, Run run, std::function<std::string(const NodeSignature&)> refuse = {},
         cpu::ScratchFunction scratch = {}) {
  cpu::add_hwy(
      backend, op, std::move(refuse),
      [run](const NodeSignature& node, int) {
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      std::move(scratch));
}

/// A kernel that minds where its positional operand is.
void add_placed(Backend& backend, const std::string& op,
                void (*run)(const NodeSignature&, const Position&, const KernelContext&),
                std::function<std::string(const NodeSignature&)> refuse = {}, cpu::ScratchFunction scratch = {},
                std::vector<std::pair<int, int>> aliases = {}, bool any_type = false) {
  cpu::add_hwy(
      backend, op, std::move(refuse),
      [run](const NodeSignature& node, int) {
        return [node, position = Position(node), run](const KernelContext& context) { run(node, position, context); };
      },
      std::move(scratch), std::move(aliases), any_type);
}

std::string refuse_lines(const NodeSignature& node) {
  const DType dtype = node.inputs[0].dtype;
  return is_floating(dtype) || is_index(dtype) ? "" : "it orders and adds floats, i32 and i64";
}

std::string refuse_scatter(const NodeSignature& node) {
  for (const TensorType& type : {node.inputs[1], node.inputs.back()})
    if (!map_steps().load(type.dtype)) return "no arithmetic on this type";
  return "";
}

}  // namespace

void add_cpu_gather(Backend& backend) {
  add_placed(backend, "gather", run_gather, {}, {}, {}, true);
  add_placed(backend, "scatter_add", run_scatter_add, refuse_scatter, scatter_scratch, {{2, 0}});
  add(backend, "one_hot", run_one_hot);
  const auto lines = [](int64_t each) {
    return [each](const NodeSignature& node, int threads) { return threads * each * line_bytes(node); };
  };
  add(
      backend, "argmax",
      [](const NodeSignature& node, const KernelContext& context) { run_extreme(node, context, true); }, refuse_lines,
      lines(1));
  add(
      backend, "argmin",
      [](const NodeSignature& node, const KernelContext& context) { run_extreme(node, context, false); }, refuse_lines,
      lines(1));
  add(backend, "cumsum", run_cumsum, refuse_lines, lines(1));
  add(backend, "top_k", run_top_k, refuse_lines, lines(2));
}

}  // namespace ramet::kernel
