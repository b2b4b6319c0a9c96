#include "ramet/front/fuse_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ramet/front/importer.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/patterns.h"
#include "ramet/ops/build.h"

namespace ramet::front {
namespace {

/// What patterns have made of a graph's calls.
struct Fused {
  std::vector<MadeCall> calls{};
  TracedProgram program{};  ///< with the types of all tensors
};

Fused fused_calls(const Graph& graph, const GraphConstants& constants) {
  GraphCalls view(graph, constants);
  PatternProgram patterns(view.program(), [&view](const std::string& name) -> const TensorData* {
    return GraphCalls::is_of_graph(name) ? view.known(name) : nullptr;
  });
  fuse_calls(patterns);
  std::vector<MadeCall> made = patterns.made_calls();
  return {std::move(made), patterns.finish()};
}

Importer::Options reads_all(const std::vector<MadeCall>& calls) {
  Importer::Options options;
  for (const MadeCall& each : calls) options.wanted.insert(each.call.outputs.begin(), each.call.outputs.end());
  return options;
}

/// Copies a graph with calls that patterns have made, without the nodes that nothing reads. The calls become nodes by
/// the table of PyTorch's operators.
class Writer {
 public:
  Writer(const Graph& from, const Fused& fused, const GraphConstants& constants)
      : from_(from),
        constants_(constants),
        uses_(from.uses()),
        made_(from.name()),
        importer_(fused.program, made_, reads_all(fused.calls)),
        copier_(from, made_) {
    size_t next = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(from.nodes().size()); ++id) {
      const TracedCall* instead = nullptr;
      for (; next < fused.calls.size() && fused.calls[next].at == static_cast<size_t>(id); ++next) {
        const MadeCall& each = fused.calls[next];
        if (each.replaces)
          instead = &each.call;
        else
          items_.push_back({id, &each.call});
      }
      items_.push_back({id, instead});
    }
  }

  Graph run() {
    drop_unread();
    copier_.copy_inputs();
    for (const GraphInput& input : made_.inputs())
      if (const auto constant = constants_.find(made_.value(input.value).name); constant != constants_.end())
        importer_.know(input.value, constant->second);
    for (const Item& item : items_) {
      if (item.call)
        write(item);
      else if (is_chosen_softmax(from_.node(item.node)))
        write_guarded(item.node);
      else
        copier_.copy_node(item.node);
    }
    copier_.copy_outputs();
    return std::move(made_);
  }

 private:
  /// A node, or a call before it or in its place.
  struct Item {
    NodeId node = kNoNode;
    const TracedCall* call = nullptr;
  };

  std::vector<std::string> outputs_of(const Item& item) const {
    if (item.call) return item.call->outputs;
    std::vector<std::string> names;
    for (const ValueId output : from_.node(item.node).outputs) names.push_back(GraphCalls::name_of(output));
    return names;
  }

  void drop_unread() {
    for (const GraphOutput& output : from_.outputs()) read_.insert(GraphCalls::name_of(output.value));
    std::vector<Item> kept;
    for (size_t i = items_.size(); i-- > 0;) {
      const std::vector<std::string> outputs = outputs_of(items_[i]);
      if (std::none_of(outputs.begin(), outputs.end(), [&](const std::string& name) { return read_.count(name); }))
        continue;
      if (items_[i].call)
        each_tensor_of(*items_[i].call, [&](const std::string& name) { read_.insert(name); });
      else
        for (const ValueId input : from_.node(items_[i].node).inputs) read_.insert(GraphCalls::name_of(input));
      kept.push_back(items_[i]);
    }
    std::reverse(kept.begin(), kept.end());
    items_ = std::move(kept);
  }

  void write(const Item& item) {
    each_tensor_of(*item.call, [&](const std::string& name) {
      if (GraphCalls::is_of_graph(name))
        importer_.give(name, importer_.build().tensor(copier_[GraphCalls::value_of(name)]));
    });
    importer_.add(*item.call, copier_.info(item.node));
    for (const std::string& name : item.call->outputs)
      if (GraphCalls::is_of_graph(name)) copier_.map(GraphCalls::value_of(name), importer_.value(name).id);
  }

  /// A softmax behind which a select chooses: what is not chosen must have a gradient of 0, not NaN.
  bool is_chosen_softmax(const Node& node) const {
    return node.op->name == "softmax" && is_floating(from_.type(node.outputs[0]).dtype) && chosen(node.outputs[0], 0);
  }
  /// Whether a select that is read chooses a value, perhaps behind casts.
  bool chosen(ValueId value, int depth) const {
    constexpr int kMostCasts = 3;
    const std::vector<NodeId>& readers = uses_[static_cast<size_t>(value)];
    return depth <= kMostCasts && std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
             const Node& node = from_.node(reader);
             if (!read_.count(GraphCalls::name_of(node.outputs[0]))) return false;
             if (node.op->name == "select") return node.inputs[1] == value || node.inputs[2] == value;
             return node.op->name == "cast" && chosen(node.outputs[0], depth + 1);
           });
  }
  void write_guarded(NodeId id) {
    const Node& node = from_.node(id);
    const InfoScope scope(importer_.build(), copier_.info(id));
    const Tensor a = importer_.build().tensor(copier_[node.inputs[0]]);
    const Tensor made =
        guarded_softmax(a, node.attributes.get_int("axis"), a.dtype(), std::numeric_limits<double>::quiet_NaN());
    copier_.map(node.outputs[0], made.id);
  }

  const Graph& from_;
  const GraphConstants& constants_;
  std::vector<std::vector<NodeId>> uses_;
  Graph made_;
  Importer importer_;
  GraphCopier copier_;
  std::vector<Item> items_{};
  std::set<std::string> read_{};
};

/// Moves the channel norms of a graph whose statistics are fixed into the convolutions before them.
class BatchNormFolder {
 public:
  explicit BatchNormFolder(const Graph& from)
      : from_(from), made_(from.name()), build_(made_), copier_(from, made_), uses_(from.uses()) {}

  Graph run() {
    find_fixed();
    std::set<NodeId> convolutions;
    std::map<NodeId, NodeId> folded;  // norm, convolution
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id)
      if (const NodeId convolution = convolution_before(id); convolution != kNoNode)
        convolutions.insert(convolution), folded[id] = convolution;
    copier_.copy_inputs();
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id) {
      if (convolutions.count(id)) continue;
      if (const auto norm = folded.find(id); norm != folded.end())
        fold(norm->second, id);
      else
        copier_.copy_node(id);
    }
    copier_.copy_outputs();
    return std::move(made_);
  }

 private:
  /// Values that no data input and no random number decides.
  void find_fixed() {
    fixed_.assign(from_.values().size(), false);
    for (const GraphInput& input : from_.inputs())
      fixed_[static_cast<size_t>(input.value)] = input.role == InputRole::kState;
    for (const Node& node : from_.nodes()) {
      const bool fixed = std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId input) { return fixed_[static_cast<size_t>(input)]; });
      for (const ValueId output : node.outputs) fixed_[static_cast<size_t>(output)] = fixed;
    }
    for (const GraphOutput& output : from_.outputs()) read_.insert(output.value);
  }

  /// The convolution that a norm can be moved into, or none.
  NodeId convolution_before(NodeId id) const {
    const Node& norm = from_.node(id);
    if (norm.op->name != "normalize_channels") return kNoNode;
    const ValueId between = norm.inputs[0];
    const NodeId producer = from_.value(between).producer;
    if (producer == kNoNode || read_.count(between) || uses_[static_cast<size_t>(between)].size() != 1) return kNoNode;
    const Node& convolution = from_.node(producer);
    const bool last = convolution.attributes.has("channels_last") || norm.attributes.has("channels_last");
    if (convolution.op->name != "convolution" || last) return kNoNode;
    const auto fixed = [&](const Node& node) {
      return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
        return fixed_[static_cast<size_t>(input)] && from_.type(input).dtype == DType::kF32;
      });
    };
    const int64_t channels = from_.type(between).shape.dim(1);
    const bool vectors = std::all_of(norm.inputs.begin() + 1, norm.inputs.end(),
                                     [&](ValueId input) { return from_.type(input).elements() == channels; });
    return fixed(norm) && fixed(convolution) && vectors ? producer : kNoNode;
  }

  /// (filter x + bias - mean) scale + shift = (filter scale) x + (bias - mean) scale + shift
  void fold(NodeId id, NodeId behind) {
    const Node &node = from_.node(id), &norm = from_.node(behind);
    const InfoScope scope(build_, copier_.info(id));
    const auto tensor = [&](ValueId value) { return build_.tensor(copier_[value]); };
    const Tensor filter = tensor(node.inputs[1]);
    const int64_t channels = filter.dim(0);
    const auto vector = [&](size_t input) { return ops::reshape(tensor(norm.inputs[input]), {channels}); };
    const Tensor mean = vector(1), factor = vector(2), shift = vector(3);
    std::vector<int64_t> dims(static_cast<size_t>(filter.shape().rank()), 1);
    dims[0] = channels;
    const Tensor wide = ops::multiply(filter, ops::reshape(factor, Shape(dims)));
    const Tensor before = node.inputs.size() > 2 ? ops::subtract(tensor(node.inputs[2]), mean) : ops::negate(mean);
    const Tensor term = ops::add(ops::multiply(before, factor), shift);
    const NodeId made = copier_.copy_node(id, {copier_[node.inputs[0]], wide.id, term.id}, node.attributes);
    copier_.map(norm.outputs[0], made_.node(made).outputs[0]);
  }

  const Graph& from_;
  Graph made_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> fixed_{};
  std::set<ValueId> read_{};  ///< outputs
};

}  // namespace

Graph fuse_graph(const Graph& graph, const GraphConstants& constants) {
  if (graph.outputs().empty()) return graph;  // nothing would be left of it
  return Writer(graph, fused_calls(graph, constants), constants).run();
}

Graph fuse_for_prediction(const Graph& graph, const GraphConstants& constants) {
  return BatchNormFolder(fuse_graph(graph, constants)).run();
}

}  // namespace ramet::front
