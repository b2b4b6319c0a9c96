#pragma once

#include <initializer_list>
#include <source_location>
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
  /// A data input whose dimensions mean this (GraphInput::axes).
  Tensor input(const std::string& name, DType dtype, Shape shape, std::vector<std::string> axes);
  /// The input of role state with this name, added on first use; a second use must agree in type.
  Tensor state(const std::string& name, DType dtype, Shape shape);
  Tensor tensor(ValueId id) { return {this, id}; }
  void output(const std::string& name, Tensor tensor, OutputRole role = OutputRole::kResult);

  /// Appends a node with one output, or several.
  Tensor op(std::string_view op_name, std::initializer_list<Tensor> inputs, Attributes attributes = {});
  std::vector<Tensor> ops(std::string_view op_name, const std::vector<Tensor>& inputs, Attributes attributes = {});

  /// What nodes added from now on get to know (NodeInfo), until `pop_info`. A scope's name goes behind the names of
  /// those around it.
  void push_info(NodeInfo info) { infos_.push_back(std::move(info)); }
  void pop_info() { infos_.pop_back(); }
  NodeInfo info() const { return infos_.empty() ? NodeInfo() : infos_.back(); }
  const std::string& scope_path() const;
  /// The path with one more name: inside scope "layer0", that of "query" is "layer0/query".
  std::string path_of(const std::string& name) const;
  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  std::vector<NodeInfo> infos_;
};

/// The origin of a node: "model/bert.cc:46", that is folder, file and line, without the path of the tree. A
/// v0::PlaceScope of this thread names another place.
std::string origin_of(const std::source_location& place);

/// RAII: nodes that are added while it lives know this.
class InfoScope {
 public:
  InfoScope(GraphBuilder& builder, NodeInfo info) : builder_(builder) { builder_.push_info(std::move(info)); }
  ~InfoScope() { builder_.pop_info(); }
  InfoScope(const InfoScope&) = delete;

 private:
  GraphBuilder& builder_;
};

/// Names nodes while it lives, and notes where the model says so.
class Scope : public InfoScope {
 public:
  Scope(GraphBuilder& builder, const std::string& name,
        const std::source_location& place = std::source_location::current());
};

/// A scope whose nodes are part INDEX of STACK. Layouts cut the model between parts, and recomputation keeps the values
/// that go from one part to the next. Number the parts of a stack from 0 in the order in which data flows through them.
/// Throws Error on a negative index or an empty name.
class PartScope : public InfoScope {
 public:
  PartScope(GraphBuilder& builder, const std::string& stack, int64_t index,
            const std::source_location& place = std::source_location::current());
};

inline const TensorType& Tensor::type() const { return builder->graph().type(id); }

}  // namespace ramet::ir
