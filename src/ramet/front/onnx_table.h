#pragma once

#include "ramet/base/house.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/front/onnx_call.h"

namespace ramet::front {

/// The entry of an operator such as "Conv"; null where it is not supported.
const OnnxEntry* find_onnx_operator(std::string_view op);
/// Why an operator that is not supported is not; "" where there is no special reason.
std::string why_onnx_refused(std::string_view op);
/// All operators, in the order of their names.
std::vector<std::string_view> onnx_operator_names();

// The table's families, a file each (front/onnx_*.cc).
std::span<const OnnxEntry> onnx_elementwise_operators();
std::span<const OnnxEntry> onnx_activation_operators();
std::span<const OnnxEntry> onnx_product_operators();
std::span<const OnnxEntry> onnx_shape_operators();
std::span<const OnnxEntry> onnx_index_operators();
std::span<const OnnxEntry> onnx_constant_operators();
std::span<const OnnxEntry> onnx_reduction_operators();
std::span<const OnnxEntry> onnx_network_operators();  ///< convolutions and pools
std::span<const OnnxEntry> onnx_norm_operators();
std::span<const OnnxEntry> onnx_loss_operators();
std::span<const OnnxEntry> onnx_attention_operators();
std::span<const OnnxEntry> onnx_recurrent_operators();
std::span<const OnnxEntry> onnx_resize_operators();
std::span<const OnnxEntry> onnx_sample_operators();  ///< sampling, patches
std::span<const OnnxEntry> onnx_quantize_operators();
std::span<const OnnxEntry> onnx_spectral_operators();
std::span<const OnnxEntry> onnx_control_operators();    ///< If, Loop, Scan
std::span<const OnnxEntry> onnx_sequence_operators();   ///< sequences and optionals
std::span<const OnnxEntry> onnx_selection_operators();  ///< results whose size depends on known values
std::span<const OnnxEntry> onnx_training_operators();   ///< ai.onnx.preview.training

}  // namespace ramet::front
