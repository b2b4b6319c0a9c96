#include "ramet/front/onnx_table.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::front {
namespace {

/// All entries in the order of their names; one operator stands once.
const std::vector<OnnxEntry>& all_operators() {
  static const std::vector<OnnxEntry> all = [] {
    std::vector<OnnxEntry> entries;
    for (const auto family :
         {onnx_elementwise_operators, onnx_activation_operators, onnx_product_operators,   onnx_shape_operators,
          onnx_index_operators,       onnx_constant_operators,   onnx_reduction_operators, onnx_network_operators,
          onnx_norm_operators,        onnx_loss_operators,       onnx_attention_operators, onnx_recurrent_operators,
          onnx_resize_operators,      onnx_sample_operators,     onnx_quantize_operators,  onnx_spectral_operators,
          onnx_control_operators,     onnx_sequence_operators,   onnx_selection_operators, onnx_training_operators})
      for (const OnnxEntry& entry : family()) entries.push_back(entry);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
    for (size_t i = 1; i < entries.size(); ++i)
      if (entries[i].op == entries[i - 1].op)
        internal_error("all_operators", std::string(entries[i].op) + " stands twice in the table");
    return entries;
  }();
  return all;
}

}  // namespace

const OnnxEntry* find_onnx_operator(std::string_view op) {
  const auto& all = all_operators();
  const auto found = std::lower_bound(all.begin(), all.end(), op,
                                      [](const auto& entry, std::string_view name) { return entry.op < name; });
  return found != all.end() && found->op == op ? &*found : nullptr;
}

std::string why_onnx_refused(std::string_view op) {
  if (op.starts_with("String") || op == "RegexFullMatch" || op == "TfIdfVectorizer") return "strings are not supported";
  if (op == "ImageDecoder") return "files of images are not supported; decode them before the model";
  if (op.starts_with("ai.onnx.ml.")) return "operators of ai.onnx.ml are not supported";
  if (op.starts_with("com.microsoft.")) return "operators that onnxruntime alone has are not supported";
  return "";
}

std::vector<std::string_view> onnx_operator_names() {
  std::vector<std::string_view> names;
  for (const OnnxEntry& entry : all_operators()) names.push_back(entry.op);
  return names;
}

}  // namespace ramet::front
