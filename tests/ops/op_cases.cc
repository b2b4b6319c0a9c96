#include "ops/op_cases.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "ramet/base/hash.h"
#include "ramet/base/rng.h"

namespace ramet::tests {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    add_elementwise_cases(all);
    add_shape_cases(all);
    add_network_cases(all);
    add_indexing_cases(all);
    add_pooling_cases(all);
    add_channel_norm_cases(all);
    add_convolution_cases(all);
    add_attention_cases(all);
    add_arithmetic_cases(all);
    add_loss_cases(all);
    add_resize_cases(all);
    add_recurrent_cases(all);
    add_sparse_cases(all);
    add_graph_cases(all);
    return all;
  }();
  return cases;
}

void PrintTo(const OpCase& op_case, std::ostream* stream) { *stream << op_case.op << "/" << op_case.name; }

NodeSignature signature_of(const OpCase& op_case) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op_case.op);
  node.name = op_case.name;
  node.attributes = op_case.attributes;
  for (const CaseInput& input : op_case.inputs) node.inputs.push_back(input.type);
  node.outputs = node.op->infer(node);
  return node;
}

std::vector<HostTensor> inputs_of(const OpCase& op_case) {
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const CaseInput& input = op_case.inputs[i];
    if (!input.values.empty()) {
      tensors.push_back(HostTensor::of(input.type.dtype, input.type.shape, input.values));
      continue;
    }
    const RandomStream stream(hash64(op_case.op + "/" + op_case.name), RandomPurpose::kTest, i, 0);
    HostTensor tensor(input.type);
    for (int64_t e = 0; e < tensor.elements(); ++e) {
      const double unit = stream.uniform(static_cast<uint64_t>(e));
      const bool real = is_floating(input.type.dtype);
      const double value = input.low + unit * (input.high - input.low + (real ? 0 : 1));
      tensor.set(e, real ? value : std::floor(value));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

OpCase in_type(const OpCase& op_case, DType dtype) {
  OpCase other = op_case;
  const auto& full = OpRegistry::instance().get(op_case.op).full_inputs;
  for (size_t i = 0; i < other.inputs.size(); ++i) {
    TensorType& type = other.inputs[i].type;
    if (type.dtype == DType::kF32 && std::find(full.begin(), full.end(), static_cast<int>(i)) == full.end())
      type.dtype = dtype;
  }
  return other;
}

}  // namespace ramet::tests
