// Ops that move elements, or make them from nothing.

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/strided_copy.h"
#include "ramet/ops/element_moves.h"
#include "ramet/ops/position.h"
#include "ramet/ops/rules.h"

namespace ramet::kernel {
namespace {

using cpu::StridedCopy;

int64_t size_in(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

using Run = std::function<void(const KernelContext&)>;

/// One copy of a node.
struct Move {
  int input = 0, output = 0;
  int64_t from_start = 0, to_start = 0, size = 1;
  StridedCopy copy;

  Move(const ElementMove& move, int64_t bytes)
      : input(move.input),
        output(move.output),
        from_start(move.from_start),
        to_start(move.to_start),
        size(bytes),
        copy(move, bytes) {}

  void run(const KernelContext& context) const {
    const auto* from = static_cast<const char*>(context.inputs[static_cast<size_t>(input)]) + from_start * size;
    auto* to = static_cast<char*>(context.outputs[static_cast<size_t>(output)]) + to_start * size;
    copy.run(from, to, context.team);
  }
};

Run make_moves(const NodeSignature& node) {
  std::vector<Move> moves;
  for (const ElementMove& move : element_moves(node)) moves.emplace_back(move, size_in(node.outputs[0].dtype));
  return [moves = std::move(moves)](const KernelContext& context) {
    for (const Move& move : moves) move.run(context);
  };
}

/// The clusters of a graph that are dealt to the device, run by run.
Run make_dealt_shard(const NodeSignature& node) {
  const int64_t size = size_in(node.outputs[0].dtype), elements = node.outputs[0].elements();
  return [position = Position(node), size, elements](const KernelContext& context) {
    const auto* const from = static_cast<const char*>(context.inputs[0]);
    auto* const to = static_cast<char*>(context.outputs[0]);
    position.for_each_run(0, elements, [&](const Position::Run& run) {
      std::memcpy(to + run.local * size, from + run.logical * size, static_cast<size_t>(run.length * size));
    });
  };
}

Run make_shard(const NodeSignature& node) {
  return node.attributes.has("deal") ? make_dealt_shard(node) : make_moves(node);
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

Run make_pad(const NodeSignature& node) {
  const Element value(node.outputs[0].dtype, node.attributes.get_float_or("value", 0));
  const int64_t size = size_in(node.outputs[0].dtype);
  return [move = make_moves(node), value, size, elements = node.outputs[0].elements()](const KernelContext& context) {
    fill(context.outputs[0], elements, value.bytes, size, context.team);
    move(context);
  };
}

Run make_full(const NodeSignature& node) {
  const DType dtype = node.outputs[0].dtype;
  const Element value(dtype, node.attributes.get_float("value"));
  return [value, size = size_in(dtype), elements = node.outputs[0].elements()](const KernelContext& context) {
    fill(context.outputs[0], elements, value.bytes, size, context.team);
  };
}

/// Numbers along the last of whole dimensions.
template <typename Number>
Run make_counts(int64_t elements, int64_t extent) {
  return [=](const KernelContext& context) {
    auto* const out = static_cast<Number*>(context.outputs[0]);
    context.team.split(elements, 16384, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin, number = begin % extent; i < end; ++i, number = number + 1 < extent ? number + 1 : 0)
        out[i] = static_cast<Number>(number);
    });
  };
}

Run make_iota(const NodeSignature& node) {
  const TensorType type = node.outputs[0];
  const int axis = normalize_axis(node.attributes.get_int("axis"), type.shape.rank(), node.text());
  if (type.elements() > 0 && axis == type.shape.rank() - 1 && Position(node).whole()) {
    if (type.dtype == DType::kI32) return make_counts<int32_t>(type.elements(), type.shape.dim(axis));
    if (type.dtype == DType::kI64) return make_counts<int64_t>(type.elements(), type.shape.dim(axis));
  }
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

void add(Backend& backend, const std::string& op, Run (*make)(const NodeSignature&)) {
  cpu::add_hwy(backend, op, {}, [make](const NodeSignature& node, int) { return make(node); }, {}, {}, true);
}

}  // namespace

void add_cpu_shape(Backend& backend) {
  for (const char* op : {"transpose", "broadcast_to", "slice", "reverse", "concat", "split"})
    add(backend, op, make_moves);
  add(backend, "shard", make_shard);
  add(backend, "pad", make_pad);
  add(backend, "full", make_full);
  add(backend, "iota", make_iota);
  // The bytes stay: where the output is not placed over the input, they are copied by all threads.
  cpu::add_hwy(
      backend, "reshape", {},
      [](const NodeSignature& node, int) {
        return [copy = StridedCopy({.extents = {node.inputs[0].bytes()}, .from = {1}, .to = {1}}, 1),
                empty = node.inputs[0].bytes() == 0](const KernelContext& context) {
          if (!empty && context.inputs[0] != context.outputs[0])
            copy.run(context.inputs[0], context.outputs[0], context.team);
        };
      },
      {}, {}, true);
}

}  // namespace ramet::kernel
