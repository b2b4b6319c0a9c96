#include "ramet/ir/builder.h"

#include "ramet/base/error.h"
#include "ramet/base/place.h"

namespace ramet::ir {

std::string origin_of(const std::source_location& place) {
  if (const std::string* const other = v0::PlaceScope::current()) return *other;
  return short_place(place.file_name(), place.line());
}

namespace {

NodeInfo scope_info(const GraphBuilder& builder, const std::string& name, const std::source_location& place) {
  NodeInfo info = builder.info().named(builder.path_of(name));
  info.origin = origin_of(place);
  return info;
}

NodeInfo part_info(const GraphBuilder& builder, const std::string& stack, int64_t index,
                   const std::source_location& place) {
  if (stack.empty() || index < 0 || index >= Part::kMost)
    throw Error({.what = stack.empty() ? "a stack of parts needs a name" : "a part of a stack has an impossible number",
                 .where = "PartScope at " + origin_of(place),
                 .found = "'" + stack + "', " + std::to_string(index),
                 .expected = "a name, and 0 to " + std::to_string(Part::kMost - 1)});
  NodeInfo info = scope_info(builder, stack + std::to_string(index), place);
  info.part = {stack, static_cast<int32_t>(index)};
  return info;
}

}  // namespace

Scope::Scope(GraphBuilder& builder, const std::string& name, const std::source_location& place)
    : InfoScope(builder, scope_info(builder, name, place)) {}

PartScope::PartScope(GraphBuilder& builder, const std::string& stack, int64_t index, const std::source_location& place)
    : InfoScope(builder, part_info(builder, stack, index, place)) {}

Tensor GraphBuilder::input(const std::string& name, DType dtype, Shape shape, InputRole role) {
  return {this, graph_.add_input(name, {dtype, std::move(shape)}, role)};
}

Tensor GraphBuilder::input(const std::string& name, DType dtype, Shape shape, std::vector<std::string> axes) {
  return {this, graph_.add_input(name, {dtype, std::move(shape)}, InputRole::kData, std::move(axes))};
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

const std::string& GraphBuilder::scope_path() const {
  static const std::string kNone;
  return infos_.empty() ? kNone : infos_.back().name;
}

std::string GraphBuilder::path_of(const std::string& name) const {
  return scope_path().empty() ? name : scope_path() + "/" + name;
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
  const NodeId node = graph_.add_node(op, std::move(ids), std::move(attributes), info());
  std::vector<Tensor> outputs;
  for (ValueId output : graph_.node(node).outputs) outputs.push_back({this, output});
  return outputs;
}

Tensor GraphBuilder::op(std::string_view op_name, std::initializer_list<Tensor> inputs, Attributes attributes) {
  return ops(op_name, std::vector<Tensor>(inputs), std::move(attributes)).at(0);
}

}  // namespace ramet::ir
