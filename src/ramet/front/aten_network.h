#pragma once

#include "ramet/base/house.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ramet/front/translation.h"
#include "ramet/ops/build_loss.h"
#include "ramet/ops/build_random.h"

namespace ramet::front {

// What the operators of networks share, and the parts of their family in the table.

std::span<const OperatorEntry> convolution_operators();
std::span<const OperatorEntry> pooling_operators();
std::span<const OperatorEntry> norm_operators();
std::span<const OperatorEntry> activation_operators();
std::span<const OperatorEntry> embedding_operators();

/// `a` with one sample where PyTorch's operator allows a tensor without samples; `rank` is the one with samples.
Tensor with_samples(Tensor a, int rank);
/// `a` in the shape that torch recorded of output `index`.
Tensor in_shape_of_result(const Translation& at, Tensor a, size_t index = 0);
/// A list of `count` integers; one integer stands for all.
std::vector<int64_t> spread(const Translation& at, std::string_view name, size_t count,
                            const std::vector<int64_t>& absent = {});
/// a in f32; f64 stays.
Tensor in_f32(Tensor a);
/// `a`, through which no gradient flows.
Tensor without_gradient(Tensor a);
/// The reduction that PyTorch numbers 0, 1 and 2.
LossReduction reduction_of(const Translation& at);
/// Whose random numbers the call draws. Refuses the call where the graph draws none.
DrawBy draws_of(const Translation& at);

}  // namespace ramet::front
