#pragma once

#include "ramet/base/house.h"

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/front/support.h"

namespace ramet::front {

// What the translators of gathers, sorts and resizing share.

/// A scalar as a vector of one element; other tensors as they are.
Tensor at_least_vector(Tensor a);
/// `numbers` as a constant of the graph.
Tensor integer_constant(const Translation& at, const Shape& shape, const std::vector<int64_t>& numbers);
/// All elements as a vector.
Tensor flat(Tensor a);
/// A list of `count` integers; a list of one stands for all of them.
std::vector<int64_t> integers_for(const Translation& at, std::string_view name, size_t count,
                                  const std::vector<int64_t>& absent = {});

}  // namespace ramet::front
