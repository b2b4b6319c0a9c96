#include "ramet/ir/builder.h"

#include "ramet/base/error.h"

namespace ramet::ir {

Tensor GraphBuilder::input(const std::string& name, DType dtype, Shape shape, InputRole role) {
  return {this, graph_.add_input(name, {dtype, std::move(shape)}, role)};
}

Tensor GraphBuilder::state(const std::string& name, DType dtype, Shape shape) {
  const ValueId known = graph_.find_input(name);
  if (known == kNoValue) return input(name, dtype, std::move(shape), InputRole::kState);
  const TensorType type{dtype, std::move(shape)};
  if (graph_.type(known) != type)
    throw Error({.what = "a state is used with two types",
                 .where = "'" + name + "'",
                 .found = type.text(),
                 .expected = graph_.type(known).text()});
  return {this, known};
}

void GraphBuilder::output(const std::string& name, Tensor tensor, OutputRole role) {
  graph_.add_output(name, tensor.id, role);
}

std::string GraphBuilder::scope_path() const {
  std::string path;
  for (const auto& scope : scopes_) path += (path.empty() ? "" : "/") + scope;
  return path;
}

std::vector<Tensor> GraphBuilder::ops(std::string_view op_name, const std::vector<Tensor>& inputs,
                                      Attributes attributes) {
  std::vector<ValueId> ids;
  for (const Tensor& input : inputs) {
    if (input.builder != this)
      throw Error({.what = input.valid() ? "a tensor of another graph" : "a tensor that was never made",
                   .where = std::string(op_name) + " in '" + scope_path() + "'"});
    ids.push_back(input.id);
  }
  const OpDef& op = OpRegistry::instance().get(op_name);
  const NodeId node = graph_.add_node(op, std::move(ids), std::move(attributes), scope_path());
  std::vector<Tensor> outputs;
  for (ValueId output : graph_.node(node).outputs) outputs.push_back({this, output});
  return outputs;
}

Tensor GraphBuilder::op(std::string_view op_name, std::initializer_list<Tensor> inputs, Attributes attributes) {
  return ops(op_name, std::vector<Tensor>(inputs), std::move(attributes)).at(0);
}

}  // namespace ramet::ir
