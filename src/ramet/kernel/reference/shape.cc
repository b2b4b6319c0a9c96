#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"
#include "ramet/ops/random_fill.h"

namespace ramet::kernel {
namespace {

using Dims = std::vector<int64_t>;

/// Moves one element as bytes, so that every type and every NaN survives.
void move_element(const ReferenceOperands& operands, int input, int64_t from, int output, int64_t to) {
  const auto size = static_cast<int64_t>(size_of(operands.input_type(input).dtype));
  std::memcpy(static_cast<char*>(operands.output_bytes(output)) + to * size,
              static_cast<const char*>(operands.input_bytes(input)) + from * size, static_cast<size_t>(size));
}

int64_t offset_in(const Shape& shape, const Dims& index) {
  int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) offset = offset * shape.dim(axis) + index[static_cast<size_t>(axis)];
  return offset;
}

void reshape(const ReferenceOperands& operands) {
  // Empty tensors may have no bytes to point at.
  if (operands.input_type(0).bytes() == 0 || operands.input_bytes(0) == operands.output_bytes(0)) return;
  std::memcpy(operands.output_bytes(0), operands.input_bytes(0), static_cast<size_t>(operands.input_type(0).bytes()));
}

/// Each element of output 0 comes from `source(index)` of input 0.
template <typename Source>
void pull(const ReferenceOperands& operands, const Source& source) {
  int64_t element = 0;
  for_each_index(operands.output_type(0).shape,
                 [&](const Dims& index) { move_element(operands, 0, source(index), 0, element++); });
}

void transpose(const ReferenceOperands& operands) {
  const Dims& permutation = operands.attributes().get_ints("permutation");
  const Shape& shape = operands.input_type(0).shape;
  Dims from(permutation.size());
  pull(operands, [&](const Dims& index) {
    for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(permutation[i])] = index[i];
    return offset_in(shape, from);
  });
}

void broadcast_to(const ReferenceOperands& operands) {
  pull(operands, [&](const Dims& index) { return broadcast_offset(operands.input_type(0).shape, index); });
}

void slice(const ReferenceOperands& operands) {
  const Dims& start = operands.attributes().get_ints("start");
  const bool strided = operands.attributes().has("stride");
  const Dims stride = strided ? operands.attributes().get_ints("stride") : Dims(start.size(), 1);
  Dims from(start.size());
  pull(operands, [&](const Dims& index) {
    for (size_t i = 0; i < index.size(); ++i) from[i] = start[i] + index[i] * stride[i];
    return offset_in(operands.input_type(0).shape, from);
  });
}

void shard(const ReferenceOperands& operands) {
  const Position position(operands.node());
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) move_element(operands, 0, position.index(i), 0, i);
}

void fill(const ReferenceOperands& operands, double value) {
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) operands.set(0, i, value);
}

void pad(const ReferenceOperands& operands) {
  fill(operands, operands.attributes().get_float_or("value", 0));
  const Dims& low = operands.attributes().get_ints("low");
  const bool inside = operands.attributes().has("interior");
  const Dims interior = inside ? operands.attributes().get_ints("interior") : Dims(low.size(), 0);
  Dims to(low.size());
  int64_t element = 0;
  for_each_index(operands.input_type(0).shape, [&](const Dims& index) {
    for (size_t i = 0; i < index.size(); ++i) to[i] = low[i] + index[i] * (interior[i] + 1);
    move_element(operands, 0, element++, 0, offset_in(operands.output_type(0).shape, to));
  });
}

/// Position of a part along the axis of concat or split, and the copy of its elements from or to the whole.
template <typename Copy>
void for_each_joint(const Shape& part, const Shape& whole, int axis, int64_t start, const Copy& copy) {
  int64_t element = 0;
  Dims in_whole(static_cast<size_t>(whole.rank()));
  for_each_index(part, [&](const Dims& index) {
    in_whole = index;
    in_whole[static_cast<size_t>(axis)] += start;
    copy(element++, offset_in(whole, in_whole));
  });
}

void concat(const ReferenceOperands& operands) {
  const Shape& whole = operands.output_type(0).shape;
  const int axis = normalize_axis(operands.attributes().get_int("axis"), whole.rank(), operands.node().text());
  int64_t start = 0;
  for (int i = 0; i < operands.inputs(); ++i) {
    const Shape& part = operands.input_type(i).shape;
    for_each_joint(part, whole, axis, start, [&](int64_t from, int64_t to) { move_element(operands, i, from, 0, to); });
    start += part.dim(axis);
  }
}

void split(const ReferenceOperands& operands) {
  const Shape& whole = operands.input_type(0).shape;
  const int axis = normalize_axis(operands.attributes().get_int("axis"), whole.rank(), operands.node().text());
  int64_t start = 0;
  for (int i = 0; i < operands.outputs(); ++i) {
    const Shape& part = operands.output_type(i).shape;
    for_each_joint(part, whole, axis, start, [&](int64_t to, int64_t from) { move_element(operands, 0, from, i, to); });
    start += part.dim(axis);
  }
}

void iota(const ReferenceOperands& operands) {
  const Shape& shape = operands.output_type(0).shape;
  const int axis = normalize_axis(operands.attributes().get_int("axis"), shape.rank(), operands.node().text());
  const Position position(operands.node());
  int64_t element = 0;
  for_each_index(shape, [&](const Dims& index) {
    const int64_t value = position.coordinate(axis, index[static_cast<size_t>(axis)]);
    if (is_floating(operands.output_type(0).dtype))
      operands.set(0, element++, static_cast<double>(value));
    else
      operands.set_int(0, element++, value);
  });
}

void random(const ReferenceOperands& operands) {
  const Attributes& attributes = operands.attributes();
  const RandomKind kind = random_kind_from_name(attributes.get_string("kind"));
  const double a = attributes.get_float("a"), b = attributes.get_float("b");
  const auto seed = static_cast<uint64_t>(attributes.get_int("seed")),
             tensor = static_cast<uint64_t>(attributes.get_int("tensor"));
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i)
    operands.set(0, i, static_cast<double>(random_initial_value(kind, a, b, seed, tensor, static_cast<uint64_t>(i))));
}

}  // namespace

void add_reference_shape(Backend& backend) {
  add_reference(backend, "reshape", reshape);
  add_reference(backend, "transpose", transpose);
  add_reference(backend, "broadcast_to", broadcast_to);
  add_reference(backend, "slice", slice);
  add_reference(backend, "shard", shard);
  add_reference(backend, "pad", pad);
  add_reference(backend, "concat", concat);
  add_reference(backend, "split", split);
  add_reference(backend, "full",
                [](const ReferenceOperands& operands) { fill(operands, operands.attributes().get_float("value")); });
  add_reference(backend, "iota", iota);
  add_reference(backend, "random", random);
}

}  // namespace ramet::kernel
