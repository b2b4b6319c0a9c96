#pragma once

#include <cstddef>
#include <vector>

#include "ramet/base/house.h"
#include "ramet/base/shape.h"

namespace ramet {

/// A dense row-major tensor in plain memory: for tests, constant folding, files and printing, not for speed.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> data;

  HostTensor() = default;
  /// Zeros.
  explicit HostTensor(TensorType tensor_type);
  /// `values` rounded to the dtype; throws Error when their number is not that of the shape's elements.
  static HostTensor of(DType dtype, Shape shape, const std::vector<double>& values);

  int64_t elements() const { return type.elements(); }
  double get(int64_t index) const { return load_element(data.data(), type.dtype, index); }
  void set(int64_t index, double value) { store_element(data.data(), type.dtype, index, value); }
  std::vector<double> values() const;
  std::vector<float> floats() const;
  /// Same type and same bytes.
  friend bool operator==(const HostTensor&, const HostTensor&) = default;
};

}  // namespace ramet
