#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ramet/ir/graph.h"

namespace ramet::ir {

/// A value of a graph under construction, with its builder: what model code handles. Cheap to copy.
struct Tensor {
  GraphBuilder* builder = nullptr;
  ValueId id = kNoValue;

  bool valid() const { return builder != nullptr; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int64_t dim(int axis) const { return shape().dim(axis); }
};

/// Appends nodes to a graph, with scopes that name them: the public way to write a model (see ops/build.h for the
/// ops as functions on tensors, and model/bert.cc for a whole model written so).
class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}

  Tensor input(const std::string& name, DType dtype, Shape shape, InputRole role = InputRole::kData);
  /// The input of role state with this name, added on first use; a second use must agree in type.
  Tensor state(const std::string& name, DType dtype, Shape shape);
  Tensor tensor(ValueId id) { return {this, id}; }
  void output(const std::string& name, Tensor tensor, OutputRole role = OutputRole::kResult);

  /// Appends a node with one output, or several.
  Tensor op(std::string_view op_name, std::initializer_list<Tensor> inputs, Attributes attributes = {});
  std::vector<Tensor> ops(std::string_view op_name, const std::vector<Tensor>& inputs, Attributes attributes = {});

  /// Scopes name nodes: inside scope("layer0") the node "query" is "layer0/query".
  void push_scope(const std::string& name) { scopes_.push_back(name); }
  void pop_scope() { scopes_.pop_back(); }
  std::string scope_path() const;
  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  std::vector<std::string> scopes_;
};

/// RAII scope.
class Scope {
 public:
  Scope(GraphBuilder& builder, const std::string& name) : builder_(builder) { builder_.push_scope(name); }
  ~Scope() { builder_.pop_scope(); }
  Scope(const Scope&) = delete;

 private:
  GraphBuilder& builder_;
};

inline const TensorType& Tensor::type() const { return builder->graph().type(id); }

}  // namespace ramet::ir
