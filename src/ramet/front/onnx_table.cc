#include "ramet/front/onnx_table.h"

#include "ramet/front/sorted_table.h"

namespace ramet::front {
namespace {

const SortedTable<OnnxEntry>& all_operators() {
  static const SortedTable<OnnxEntry> all{
      onnx_elementwise_operators, onnx_activation_operators, onnx_product_operators,   onnx_shape_operators,
      onnx_index_operators,       onnx_constant_operators,   onnx_reduction_operators, onnx_network_operators,
      onnx_norm_operators,        onnx_loss_operators,       onnx_attention_operators, onnx_recurrent_operators,
      onnx_resize_operators,      onnx_sample_operators,     onnx_quantize_operators,  onnx_spectral_operators,
      onnx_control_operators,     onnx_sequence_operators,   onnx_selection_operators, onnx_training_operators};
  return all;
}

}  // namespace

const OnnxEntry* find_onnx_operator(std::string_view op) { return all_operators().find(op); }
std::vector<std::string_view> onnx_operator_names() { return all_operators().names(); }

std::string why_onnx_refused(std::string_view op) {
  if (op.starts_with("String") || op == "RegexFullMatch") return "strings are not supported";
  if (op == "ImageDecoder") return "files of images are not supported; decode them before the model";
  if (op.starts_with("ai.onnx.ml.")) return "the operator of ai.onnx.ml is not supported";
  if (op.starts_with("com.microsoft.")) return "operators that onnxruntime alone has are not supported";
  return "";
}

}  // namespace ramet::front
