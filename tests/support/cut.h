#pragma once

#include <cstring>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/ir/op.h"

namespace ramet::tests {

/// A cut of a dimension in a test: [blocks, parts, rest], of which a shard has part k.
struct TestCut {
  int dim = 0;
  int64_t parts = 1, blocks = 1;
};

/// Part k of the tensor, element by element: an oracle for cuts.
inline HostTensor cut(const HostTensor& whole, const TestCut& how, int64_t k) {
  std::vector<int64_t> dims = whole.type.shape.dims();
  const int64_t extent = dims[static_cast<size_t>(how.dim)], inner = extent / (how.parts * how.blocks);
  dims[static_cast<size_t>(how.dim)] = extent / how.parts;
  HostTensor part(TensorType{whole.type.dtype, Shape(dims)});
  const auto size = size_of(whole.type.dtype);
  const auto strides = whole.type.shape.strides();
  for (int64_t e = 0; e < part.elements(); ++e) {
    int64_t rest = e, from = 0;
    for (size_t axis = dims.size(); axis-- > 0;) {
      int64_t index = rest % dims[axis];
      rest /= dims[axis];
      if (static_cast<int>(axis) == how.dim) index = (index / inner * how.parts + k) * inner + index % inner;
      from += index * strides[axis];
    }
    std::memcpy(part.data.data() + static_cast<size_t>(e) * size, whole.data.data() + static_cast<size_t>(from) * size,
                size);
  }
  return part;
}

/// Attributes that tell a node that its positional operand is part k[i] of cuts[i].
inline Attributes placed(Attributes attributes, const std::vector<TestCut>& cuts, const std::vector<int64_t>& k) {
  std::vector<int64_t> numbers;
  for (const TestCut& one : cuts) numbers.insert(numbers.end(), {one.dim, 2, one.parts, one.blocks, 1});
  attributes.set("cuts", numbers).set("position", k);
  return attributes;
}

}  // namespace ramet::tests
