#pragma once

#include "ramet/base/house.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/front/onnx_records.h"

namespace ramet::front {

/// The initializers that look like weights: floats with a dimension that a product, a convolution, a norm, a lookup, an
/// activation or arithmetic reads as a factor or a summand, directly, behind operators that only move elements, or in
/// an inner graph. The statistics of batch norms are none, those that are written out as arithmetic among them, nor is
/// a single number.
std::set<std::string> find_onnx_weights(const OnnxGraph& graph);

/// Whether a tensor of f32 holds numbers that hide keys of attention (1e30 and beyond, or infinity): a mask, and no
/// weight.
bool hides_keys(const HostTensor& tensor);

/// Which of these initializers are tables of rotary positions: two of one shape [..., positions, size] that hold each
/// angle twice (at i and i + size / 2, or at 2 i and 2 i + 1), one its cosines and one its sines, times one amplitude.
/// Exporters that compute what is constant leave such tables where weights stand.
std::set<std::string> find_angle_tables(const std::vector<std::pair<std::string, const HostTensor*>>& tensors);

}  // namespace ramet::front
