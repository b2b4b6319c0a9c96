// Ops that move elements, or make them from nothing.

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/strided_copy.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

using cpu::StridedCopy;
using Dims = std::vector<int64_t>;

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

/// One copy of a node: between an input and an output, from and to elements `from_start` and `to_start`.
struct Move {
  int input = 0, output = 0;
  int64_t from_start = 0, to_start = 0, size = 1;
  StridedCopy copy;

  void run(const KernelContext& context) const {
    const auto* from = static_cast<const char*>(context.inputs[static_cast<size_t>(input)]) + from_start * size;
    auto* to = static_cast<char*>(context.outputs[static_cast<size_t>(output)]) + to_start * size;
    copy.run(from, to, context.team);
  }
};

std::function<void(const KernelContext&)> all_of(std::vector<Move> moves) {
  return [moves = std::move(moves)](const KernelContext& context) {
    for (const Move& move : moves) move.run(context);
  };
}

/// The whole output from strided elements of input 0.
Move pull(const NodeSignature& node, const Dims& strides, int64_t start) {
  const Shape& shape = node.outputs[0].shape;
  const int64_t size = size_in(node.outputs[0].dtype);
  return {0, 0, start, 0, size, StridedCopy(shape.dims(), strides, shape.strides(), size)};
}

std::function<void(const KernelContext&)> make_transpose(const NodeSignature& node) {
  const Dims own = node.inputs[0].shape.strides();
  Dims strides;
  for (int64_t axis : node.attributes.get_ints("permutation")) strides.push_back(own[static_cast<size_t>(axis)]);
  return all_of({pull(node, strides, 0)});
}

std::function<void(const KernelContext&)> make_broadcast(const NodeSignature& node) {
  const Shape &shape = node.inputs[0].shape, &wide = node.outputs[0].shape;
  const Dims own = shape.strides();
  Dims strides(static_cast<size_t>(wide.rank()), 0);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape.dim(axis) != 1)
      strides[static_cast<size_t>(axis + wide.rank() - shape.rank())] = own[static_cast<size_t>(axis)];
  return all_of({pull(node, strides, 0)});
}

Dims ints_or(const NodeSignature& node, const char* name, int64_t otherwise, size_t count) {
  return node.attributes.has(name) ? node.attributes.get_ints(name) : Dims(count, otherwise);
}

std::function<void(const KernelContext&)> make_slice(const NodeSignature& node) {
  const Dims& start = node.attributes.get_ints("start");
  const Dims own = node.inputs[0].shape.strides(), steps = ints_or(node, "stride", 1, start.size());
  Dims strides;
  int64_t first = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    strides.push_back(own[i] * steps[i]);
    first += own[i] * start[i];
  }
  return all_of({pull(node, strides, first)});
}

/// The clusters of a graph that are dealt to the device, run by run.
std::function<void(const KernelContext&)> make_dealt_shard(const NodeSignature& node) {
  const int64_t size = size_in(node.outputs[0].dtype), elements = node.outputs[0].elements();
  return [position = Position(node), size, elements](const KernelContext& context) {
    const auto* const from = static_cast<const char*>(context.inputs[0]);
    auto* const to = static_cast<char*>(context.outputs[0]);
    position.for_each_run(0, elements, [&](const Position::Run& run) {
      std::memcpy(to + run.local * size, from + run.logical * size, static_cast<size_t>(run.length * size));
    });
  };
}

/// A cut dimension is [blocks, run] of what was [blocks, parts, run].
std::function<void(const KernelContext&)> make_shard(const NodeSignature& node) {
  if (node.attributes.has("deal")) return make_dealt_shard(node);
  const Shape& shape = node.inputs[0].shape;
  const Dims own = shape.strides();
  Dims extents, strides;
  int64_t first = 0;
  const std::vector<PositionCut> cuts = position_cuts(node);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const PositionCut& each) { return each.dim == axis; });
    const int64_t stride = own[static_cast<size_t>(axis)];
    const bool whole = cut == cuts.end();
    const int64_t blocks = whole ? 1 : cut->blocks, parts = whole ? 1 : cut->parts;
    const int64_t run = shape[axis] / (blocks * parts);
    if (!whole) first += cut->position * run * stride;
    extents.insert(extents.end(), {blocks, run});
    strides.insert(strides.end(), {parts * run * stride, stride});
  }
  const int64_t size = size_in(node.outputs[0].dtype);
  return all_of({Move{0, 0, first, 0, size, StridedCopy(extents, strides, Shape(extents).strides(), size)}});
}

std::function<void(const KernelContext&)> make_reverse(const NodeSignature& node) {
  const Shape& shape = node.inputs[0].shape;
  Dims strides = shape.strides();
  int64_t first = 0;
  for (int axis : axes_attribute(node, "axes", shape.rank())) {
    first += (shape.dim(axis) - 1) * strides[static_cast<size_t>(axis)];
    strides[static_cast<size_t>(axis)] *= -1;
  }
  return all_of({pull(node, strides, shape.elements() == 0 ? 0 : first)});
}

std::function<void(const KernelContext&)> make_joint(const NodeSignature& node, bool concat) {
  const TensorType& whole = concat ? node.outputs[0] : node.inputs[0];
  const std::vector<TensorType>& parts = concat ? node.inputs : node.outputs;
  const int axis = normalize_axis(node.attributes.get_int("axis"), whole.shape.rank(), node.text());
  const Dims strides = whole.shape.strides();
  const int64_t size = size_in(whole.dtype);
  std::vector<Move> moves;
  int64_t start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& part = parts[i].shape;
    const Dims own = part.strides();
    const int64_t at = start * strides[static_cast<size_t>(axis)];
    if (concat)
      moves.push_back({static_cast<int>(i), 0, 0, at, size, StridedCopy(part.dims(), own, strides, size)});
    else
      moves.push_back({0, static_cast<int>(i), at, 0, size, StridedCopy(part.dims(), strides, own, size)});
    start += part.dim(axis);
  }
  return all_of(std::move(moves));
}

/// Fills `elements` elements with the bytes of one.
void fill(void* to, int64_t elements, const char* one, int64_t size, ThreadTeam& team) {
  auto* out = static_cast<char*>(to);
  const bool zero = std::all_of(one, one + size, [](char byte) { return byte == 0; });
  team.split(elements, 16384, [&](int64_t begin, int64_t end, int) {
    char* first = out + begin * size;
    const int64_t bytes = (end - begin) * size;
    if (zero) return void(std::memset(first, 0, static_cast<size_t>(bytes)));
    std::memcpy(first, one, static_cast<size_t>(size));
    for (int64_t done = size; done < bytes; done *= 2)
      std::memcpy(first + done, first, static_cast<size_t>(std::min(done, bytes - done)));
  });
}

struct Element {
  char bytes[8] = {};
  Element(DType dtype, double value) { store_element(bytes, dtype, 0, value); }
};

std::function<void(const KernelContext&)> make_pad(const NodeSignature& node) {
  const Shape &shape = node.inputs[0].shape, &wide = node.outputs[0].shape;
  const Dims& low = node.attributes.get_ints("low");
  const Dims between = ints_or(node, "interior", 0, low.size()), strides = wide.strides();
  const DType dtype = node.outputs[0].dtype;
  const int64_t size = size_in(dtype);
  Dims to;
  int64_t first = 0;
  for (size_t i = 0; i < low.size(); ++i) {
    to.push_back(strides[i] * (between[i] + 1));
    first += strides[i] * low[i];
  }
  const Move move{0, 0, 0, first, size, StridedCopy(shape.dims(), shape.strides(), to, size)};
  const Element value(dtype, node.attributes.get_float_or("value", 0));
  return [move, value, size, elements = wide.elements(), empty = shape.elements() == 0](const KernelContext& context) {
    fill(context.outputs[0], elements, value.bytes, size, context.team);
    if (!empty) move.run(context);
  };
}

std::function<void(const KernelContext&)> make_full(const NodeSignature& node) {
  const DType dtype = node.outputs[0].dtype;
  const Element value(dtype, node.attributes.get_float("value"));
  return [value, size = size_in(dtype), elements = node.outputs[0].elements()](const KernelContext& context) {
    fill(context.outputs[0], elements, value.bytes, size, context.team);
  };
}

std::function<void(const KernelContext&)> make_iota(const NodeSignature& node) {
  const TensorType type = node.outputs[0];
  const int axis = normalize_axis(node.attributes.get_int("axis"), type.shape.rank(), node.text());
  return [type, axis, position = Position(node)](const KernelContext& context) {
    if (type.elements() == 0) return;
    const int64_t inner = type.shape.strides()[static_cast<size_t>(axis)], extent = type.shape.dim(axis);
    const int64_t size = size_in(type.dtype);
    auto* out = static_cast<char*>(context.outputs[0]);
    context.team.split(type.elements() / inner, std::max<int64_t>(1, 4096 / inner),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t i = begin; i < end; ++i) {
                           const Element value(type.dtype, static_cast<double>(position.coordinate(axis, i % extent)));
                           for (int64_t e = 0; e < inner; ++e)
                             std::memcpy(out + (i * inner + e) * size, value.bytes, static_cast<size_t>(size));
                         }
                       });
  };
}

void add(Backend& backend, const std::string& op,
         std::function<void(const KernelContext&)> (*make)(const NodeSignature&)) {
  cpu::add_hwy(backend, op, {}, [make](const NodeSignature& node, int) { return make(node); }, {}, {}, true);
}

}  // namespace

void add_cpu_shape(Backend& backend) {
  add(backend, "transpose", make_transpose);
  add(backend, "broadcast_to", make_broadcast);
  add(backend, "slice", make_slice);
  add(backend, "shard", make_shard);
  add(backend, "reverse", make_reverse);
  add(backend, "pad", make_pad);
  add(backend, "concat", [](const NodeSignature& node) { return make_joint(node, true); });
  add(backend, "split", [](const NodeSignature& node) { return make_joint(node, false); });
  add(backend, "full", make_full);
  add(backend, "iota", make_iota);
  // The bytes stay: where the output is not placed over the input, they are copied by all threads.
  cpu::add_hwy(
      backend, "reshape", {},
      [](const NodeSignature& node, int) {
        return [copy = StridedCopy({node.inputs[0].bytes()}, {1}, {1}, 1),
                empty = node.inputs[0].bytes() == 0](const KernelContext& context) {
          if (!empty && context.inputs[0] != context.outputs[0])
            copy.run(context.inputs[0], context.outputs[0], context.team);
        };
      },
      {}, {}, true);
}

}  // namespace ramet::kernel
