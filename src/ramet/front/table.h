#pragma once

#include "ramet/base/house.h"

#include <span>
#include <string_view>

#include "ramet/front/translation.h"

namespace ramet::front {

/// The entry of an operator such as "aten.conv2d"; null where it is not supported.
const OperatorEntry* find_operator(std::string_view op);
/// All operators, in the order of their names.
std::vector<std::string_view> operator_names();

// The table's families, a file each (front/aten_*.cc).
std::span<const OperatorEntry> product_operators();
std::span<const OperatorEntry> arithmetic_operators();
std::span<const OperatorEntry> shape_operators();
std::span<const OperatorEntry> constant_operators();
std::span<const OperatorEntry> reduction_operators();
std::span<const OperatorEntry> network_operators();  ///< convolutions, pools, norms, activations
std::span<const OperatorEntry> attention_operators();
std::span<const OperatorEntry> loss_operators();
std::span<const OperatorEntry> random_operators();
std::span<const OperatorEntry> index_operators();     ///< gathers, scatters, masks, bits
std::span<const OperatorEntry> order_operators();     ///< sorting, searching, running results
std::span<const OperatorEntry> distance_operators();  ///< distances, products of vectors, histograms
std::span<const OperatorEntry> spectral_operators();  ///< Fourier transforms
std::span<const OperatorEntry> resize_operators();
std::span<const OperatorEntry> recurrent_operators();

}  // namespace ramet::front
