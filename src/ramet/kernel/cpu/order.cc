// Elements in order along an axis, and results that run along an axis.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/element_math.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

using cpu::is_nan;
using cpu::map_steps;
using cpu::wrapped_product;

constexpr int64_t kColumns = 16;  ///< lines that a thread does side by side where they are not dense
constexpr int64_t kGrain = 4096;  ///< elements that are worth a thread
constexpr int64_t kValues = 256;  ///< values that a thread searches for at a time

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Calls `run` with a value of the type that elements of `dtype` are loaded as (MapSteps::load).
template <typename Run>
void with_loaded(DType dtype, const Run& run) {
  if (dtype == DType::kI64)
    run(int64_t{});
  else if (dtype == DType::kI32)
    run(int32_t{});
  else
    run(float{});
}

/// Floats, i32 and i64 have loads, stores and keys here.
std::string refuse_types(const NodeSignature& node) {
  const DType dtype = node.inputs[0].dtype;
  if (dtype != DType::kI32 && dtype != DType::kI64 && !is_floating(dtype)) return "no loops for this element type";
  return map_steps().load(dtype) && map_steps().store(dtype) ? "" : "no loops for this element type";
}

/// Input 0 as [outer, extent, inner] around the axis.
struct Lines {
  int64_t outer = 1, extent = 1, inner = 1;
  explicit Lines(const NodeSignature& node) {
    const Shape& shape = node.inputs[0].shape;
    const int axis = axis_attribute(node, "axis", shape.rank());
    extent = shape.dim(axis);
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) (i < axis ? outer : inner) *= shape.dim(i);
  }
};

// --- sort ---

/// A number that is in order of the elements as unsigned integers: equal elements have equal ones, a NaN the greatest.
uint32_t key_of(float value) {
  if (std::isnan(value)) return 0xffffffffu;
  const uint32_t bits = std::bit_cast<uint32_t>(value == 0 ? 0.0f : value);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
uint32_t key_of(int32_t value) { return static_cast<uint32_t>(value) ^ 0x80000000u; }
uint64_t key_of(int64_t value) { return static_cast<uint64_t>(value) ^ (uint64_t{1} << 63); }

/// A key and an index: no two are equal, so that every way to sort them gives one order.
struct WideKey {
  uint64_t key;
  uint32_t index;
  friend bool operator<(const WideKey& a, const WideKey& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};
using NarrowKey = uint64_t;  ///< 32 bits of key above 32 of index

int64_t sort_room(const NodeSignature& node) {
  const int64_t extent = Lines(node).extent;
  return padded(extent * static_cast<int64_t>(sizeof(WideKey))) + padded(extent * 8);
}

/// The indices of `count` elements in order.
template <typename T>
void sort_line(const T* values, int64_t count, bool descending, void* room, int32_t* order, int64_t step) {
  if constexpr (sizeof(T) == 8) {
    auto* keys = static_cast<WideKey*>(room);
    for (int64_t i = 0; i < count; ++i)
      keys[i] = {descending ? ~key_of(values[i]) : key_of(values[i]), static_cast<uint32_t>(i)};
    std::sort(keys, keys + count);
    for (int64_t i = 0; i < count; ++i) order[i * step] = static_cast<int32_t>(keys[i].index);
  } else {
    auto* keys = static_cast<NarrowKey*>(room);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t key = descending ? ~key_of(values[i]) : key_of(values[i]);
      keys[i] = uint64_t{key} << 32 | static_cast<uint64_t>(i);
    }
    std::sort(keys, keys + count);
    for (int64_t i = 0; i < count; ++i) order[i * step] = static_cast<int32_t>(keys[i] & 0xffffffffu);
  }
}

void run_sort(const NodeSignature& node, const KernelContext& context) {
  const Lines lines(node);
  const DType dtype = node.inputs[0].dtype;
  const bool descending = node.attributes.get_bool_or("descending", false);
  if (node.outputs[0].elements() == 0) return;
  const int64_t room_bytes = sort_room(node), size = size_in(dtype), step = lines.inner;
  const int64_t keys_bytes = padded(lines.extent * static_cast<int64_t>(sizeof(WideKey)));
  with_loaded(dtype, [&]<typename T>(T) {
    context.team.split(lines.outer * lines.inner, std::max<int64_t>(1, 1024 / lines.extent),
                       [&](int64_t begin, int64_t end, int rank) {
                         char* room = static_cast<char*>(context.scratch) + rank * room_bytes;
                         for (int64_t line = begin; line < end; ++line) {
                           const int64_t first = line / step * lines.extent * step + line % step;
                           const char* from = static_cast<const char*>(context.inputs[0]) + first * size;
                           char* to = static_cast<char*>(context.outputs[0]) + first * size;
                           int32_t* order = static_cast<int32_t*>(context.outputs[1]) + first;
                           T* values = reinterpret_cast<T*>(room + keys_bytes);
                           map_steps().load(dtype)(from, step, lines.extent, values);
                           sort_line(values, lines.extent, descending, room, order, step);
                           // Elements move as bytes: keys do not know -0 from 0.
                           for (int64_t i = 0; i < lines.extent; ++i)
                             std::memcpy(to + i * step * size, from + order[i * step] * step * size,
                                         static_cast<size_t>(size));
                         }
                       });
  });
}

// --- search_sorted ---

/// A NaN is the greatest.
template <typename T>
bool less(T a, T b) {
  return is_nan(a) || is_nan(b) ? !is_nan(a) && is_nan(b) : a < b;
}

int64_t search_room(const NodeSignature& node) { return padded((node.inputs[0].shape.dim(-1) + kValues) * 8); }

void run_search(const NodeSignature& node, const KernelContext& context) {
  const Shape &sorted = node.inputs[0].shape, &values = node.inputs[1].shape;
  const DType dtype = node.inputs[0].dtype;
  const bool right = node.attributes.get_bool_or("right", false);
  const int64_t extent = sorted.dim(-1), each = sorted.rank() > 1 ? values.dim(-1) : values.elements();
  const int64_t room_bytes = search_room(node), size = size_in(dtype);
  auto* out = static_cast<int32_t*>(context.outputs[0]);
  with_loaded(dtype, [&]<typename T>(T) {
    context.team.split(values.elements(), kValues, [&](int64_t begin, int64_t end, int rank) {
      T* line = reinterpret_cast<T*>(static_cast<char*>(context.scratch) + rank * room_bytes);
      T* wanted = line + extent;
      int64_t loaded = -1;
      while (begin < end) {
        const int64_t row = begin / each, count = std::min({kValues, end - begin, (row + 1) * each - begin});
        if (row != loaded)
          map_steps().load(dtype)(static_cast<const char*>(context.inputs[0]) + row * extent * size, 1, extent, line);
        loaded = row;
        map_steps().load(dtype)(static_cast<const char*>(context.inputs[1]) + begin * size, 1, count, wanted);
        for (int64_t i = 0; i < count; ++i) {
          const T* found = right ? std::upper_bound(line, line + extent, wanted[i], less<T>)
                                 : std::lower_bound(line, line + extent, wanted[i], less<T>);
          out[begin + i] = static_cast<int32_t>(found - line);
        }
        begin += count;
      }
    });
  });
}

// --- running results ---

/// A thread's piece of a tensor around an axis: [extent, columns], as loaded, dense.
struct Tile {
  int64_t first = 0;    ///< element
  int64_t columns = 1;  ///< neighbours
};

int64_t columns_of(const Lines& lines) { return std::min(lines.inner, kColumns); }
int64_t tile_bytes(const Lines& lines) { return padded(lines.extent * columns_of(lines) * 8); }

template <typename T>
void load_tile(DType dtype, const void* data, const Lines& lines, const Tile& tile, T* to) {
  const char* from = static_cast<const char*>(data) + tile.first * size_in(dtype);
  const cpu::LoadFunction load = map_steps().load(dtype);
  if (lines.inner == 1) return load(from, 1, lines.extent, to);
  for (int64_t i = 0; i < lines.extent; ++i)
    load(from + i * lines.inner * size_in(dtype), 1, tile.columns, to + i * tile.columns);
}

template <typename T>
void store_tile(DType dtype, const T* tile_data, const Lines& lines, const Tile& tile, void* data) {
  char* to = static_cast<char*>(data) + tile.first * size_in(dtype);
  const cpu::StoreFunction store = map_steps().store(dtype);
  if (lines.inner == 1) return store(tile_data, lines.extent, to);
  for (int64_t i = 0; i < lines.extent; ++i)
    store(tile_data + i * tile.columns, tile.columns, to + i * lines.inner * size_in(dtype));
}

/// Calls `visit(tile, rank)` for all tiles, shared by the team.
template <typename Visit>
void for_each_tile(const Lines& lines, ThreadTeam& team, const Visit& visit) {
  if (lines.outer * lines.inner * lines.extent == 0) return;
  const int64_t wide = columns_of(lines), across = (lines.inner + wide - 1) / wide;
  team.split(lines.outer * across, std::max<int64_t>(1, kGrain / (lines.extent * wide)),
             [&](int64_t begin, int64_t end, int rank) {
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t column = i % across * wide;
                 visit(Tile{i / across * lines.extent * lines.inner + column, std::min(wide, lines.inner - column)},
                       rank);
               }
             });
}

/// A run along the columns of a tile: `step(state, element, before)` gives the state behind an element from the one
/// before it, and `start(element)` that of the first.
template <typename T, typename Start, typename Step>
void run_along(const Lines& lines, const Tile& tile, bool reverse, T* results, const Start& start, const Step& step) {
  const int64_t columns = tile.columns, last = lines.extent - 1, by = reverse ? -columns : columns;
  const int64_t first = reverse ? last * columns : 0;
  if (columns == 1) {  // the state stays in a register
    T state = results[first] = start(first);
    for (int64_t i = 1, element = first + by; i <= last; ++i, element += by)
      results[element] = state = step(state, element, element - by);
    return;
  }
  T states[kColumns];
  for (int64_t c = 0; c < columns; ++c) results[first + c] = states[c] = start(first + c);
  for (int64_t i = 1, row = first + by; i <= last; ++i, row += by)
    for (int64_t c = 0; c < columns; ++c) results[row + c] = states[c] = step(states[c], row + c, row + c - by);
}

void run_cumprod(const NodeSignature& node, const KernelContext& context) {
  const Lines lines(node);
  const DType dtype = node.inputs[0].dtype;
  const bool reverse = node.attributes.get_bool_or("reverse", false);
  const int64_t bytes = tile_bytes(lines);
  with_loaded(dtype, [&]<typename T>(T) {
    for_each_tile(lines, context.team, [&](const Tile& tile, int rank) {
      T* values = reinterpret_cast<T*>(static_cast<char*>(context.scratch) + rank * bytes);
      load_tile(dtype, context.inputs[0], lines, tile, values);
      run_along(
          lines, tile, reverse, values, [values](int64_t element) { return values[element]; },
          [values](T state, int64_t element, int64_t) { return wrapped_product(state, values[element]); });
      store_tile(dtype, values, lines, tile, context.outputs[0]);
    });
  });
}

void run_linear_scan(const NodeSignature& node, const KernelContext& context) {
  const Lines lines(node);
  const DType dtype = node.inputs[0].dtype;
  const bool reverse = node.attributes.get_bool_or("reverse", false);
  const bool shifted = node.attributes.get_bool_or("shifted", false);
  const int64_t bytes = tile_bytes(lines);
  for_each_tile(lines, context.team, [&](const Tile& tile, int rank) {
    char* room = static_cast<char*>(context.scratch) + rank * 2 * bytes;
    auto* factors = reinterpret_cast<float*>(room);
    auto* states = reinterpret_cast<float*>(room + bytes);
    load_tile(dtype, context.inputs[0], lines, tile, factors);
    load_tile(dtype, context.inputs[1], lines, tile, states);
    run_along(
        lines, tile, reverse, states, [states](int64_t element) { return states[element]; },
        [=](float state, int64_t element, int64_t before) {
          return factors[shifted ? before : element] * state + states[element];
        });
    store_tile(dtype, states, lines, tile, context.outputs[0]);
  });
}

void run_cumulative_extreme(const NodeSignature& node, const KernelContext& context, bool greatest) {
  const Lines lines(node);
  const DType dtype = node.inputs[0].dtype;
  const int64_t bytes = tile_bytes(lines);
  auto* indices = static_cast<int32_t*>(context.outputs[1]);
  with_loaded(dtype, [&]<typename T>(T) {
    for_each_tile(lines, context.team, [&](const Tile& tile, int rank) {
      T* values = reinterpret_cast<T*>(static_cast<char*>(context.scratch) + rank * bytes);
      load_tile(dtype, context.inputs[0], lines, tile, values);
      T best[kColumns] = {};
      int64_t index[kColumns] = {};
      for (int64_t i = 0; i < lines.extent; ++i)
        for (int64_t c = 0; c < tile.columns; ++c) {
          const T value = values[i * tile.columns + c];
          const bool stays = i > 0 && (is_nan(best[c]) || (greatest ? value < best[c] : best[c] < value));
          if (is_nan(value) || !stays) best[c] = value, index[c] = i;
          values[i * tile.columns + c] = best[c];
          indices[tile.first + i * lines.inner + c] = static_cast<int32_t>(index[c]);
        }
      store_tile(dtype, values, lines, tile, context.outputs[0]);
    });
  });
}

using Run = void (*)(const NodeSignature&, const KernelContext&);

void add(Backend& backend, const std::string& op, Run run, int64_t (*room)(const NodeSignature&)) {
  cpu::add_hwy(
      backend, op, refuse_types,
      [run](const NodeSignature& node, int) {
        return [node, run](const KernelContext& context) { run(node, context); };
      },
      [room](const NodeSignature& node, int threads) { return threads * room(node); });
}

}  // namespace

void add_cpu_order(Backend& backend) {
  constexpr auto tiles = [](const NodeSignature& node) { return tile_bytes(Lines(node)); };
  constexpr auto two_tiles = [](const NodeSignature& node) { return 2 * tile_bytes(Lines(node)); };
  add(backend, "sort", run_sort, sort_room);
  add(backend, "search_sorted", run_search, search_room);
  add(backend, "cumprod", run_cumprod, tiles);
  add(backend, "linear_scan", run_linear_scan, two_tiles);
  add(
      backend, "cummax",
      [](const NodeSignature& node, const KernelContext& context) { run_cumulative_extreme(node, context, true); },
      tiles);
  add(
      backend, "cummin",
      [](const NodeSignature& node, const KernelContext& context) { run_cumulative_extreme(node, context, false); },
      tiles);
}

}  // namespace ramet::kernel
