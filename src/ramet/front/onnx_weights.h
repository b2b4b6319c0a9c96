#pragma once

#include "ramet/base/house.h"

#include <set>
#include <string>
#include <vector>

#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// The initializers that look like weights: floats with a dimension that a product, a convolution, a norm, a lookup, an
/// activation or arithmetic reads as a factor or a summand, directly, behind operators that only move elements, or in
/// an inner graph. The statistics of batch norms are none, nor are summands below a square root (a variance), nor is a
/// single number.
std::set<std::string> find_onnx_weights(const OnnxGraph& graph);

}  // namespace ramet::front
