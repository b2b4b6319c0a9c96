#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/base/house.h"

namespace ramet {

using v0::Shape;
using v0::TensorType;

/// `axis` in [-rank, rank) as [0, rank); throws Error naming `where` otherwise.
int normalize_axis(int64_t axis, int rank, const std::string& where);

/// The shape that two shapes broadcast to, by NumPy's rule; throws Error naming `where`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const std::string& where);

}  // namespace ramet
