#pragma once

#include "ramet/base/house.h"

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ramet/front/translation.h"

namespace ramet::front {

// What translators of several families share.

/// The tensor in another element type; a bool is whether an element is not 0.
Tensor in_type(Tensor a, DType dtype);
/// A tensor or a number of a call in an element type. A number has rank 0.
Tensor operand(const Translation& at, std::string_view name, DType dtype);
/// The element type that torch computes in for these arguments, as its rules of type promotion say: tensors with
/// dimensions count before those without, and these before numbers; of a kind, floats before integers before bools.
DType promoted(const Translation& at, std::initializer_list<std::string_view> names);
/// A number as a tensor of rank 0, without loss.
Tensor number_tensor(GraphBuilder& build, DType dtype, const TracedArgument& number);
/// The dimensions of an argument, from 0; of a tensor without dimensions none.
std::vector<int64_t> axes_of(const Translation& at, std::string_view name, int rank);
/// One dimension, from 0; throws Error where there is none of this number.
int64_t axis_of(const Translation& at, std::string_view name, int rank, std::optional<int64_t> absent = std::nullopt);
/// The value in the shape that torch recorded of output `index`, which has as many elements.
Tensor like_result(const Translation& at, Tensor value, size_t index = 0);

}  // namespace ramet::front
