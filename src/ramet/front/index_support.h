#pragma once

#include "ramet/base/house.h"

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/front/translation.h"

namespace ramet::front {

// What the translators of gathers, sorts and resizing share.

/// `axis` as torch counts it, where a scalar has one dimension: refuses the call where it is out of range.
int64_t axis_of(const Translation& at, int64_t axis, int rank);
/// A scalar as a vector of one element; other tensors as they are.
Tensor at_least_vector(Tensor a);
/// `a` in the shape that torch recorded of output `index`: of translators that add or drop dimensions of extent 1.
Tensor shaped_as_result(const Translation& at, Tensor a, size_t index = 0);
/// `numbers` as a constant of the graph.
Tensor integer_constant(const Translation& at, const Shape& shape, const std::vector<int64_t>& numbers);
/// All elements as a vector.
Tensor flat(Tensor a);
/// A list of `count` integers; a list of one stands for all of them.
std::vector<int64_t> integers_for(const Translation& at, std::string_view name, size_t count,
                                  const std::vector<int64_t>& absent = {});

}  // namespace ramet::front
