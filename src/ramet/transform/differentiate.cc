#include "ramet/transform/differentiate.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"

namespace ramet::transform {
namespace {

class Differentiator {
 public:
  Differentiator(const Graph& forward, Graph& result)
      : forward_(forward), result_(result), build_(result), copier_(forward, result) {
    copier_.copy_inputs();
    int32_t last = 0;
    for (const Node& node : forward.nodes()) last = std::max(last, node.serial);
    for (NodeId id = 0; id < static_cast<NodeId>(forward.nodes().size()); ++id) {
      const NodeId copy = copier_.copy_node(id);
      if (result.node(copy).serial != 0) continue;
      NodeInfo info = result.node(copy);
      info.serial = ++last;
      result.set_info(copy, std::move(info));
    }
    copier_.copy_outputs();
  }

  void run(const std::string& loss, const std::vector<std::string>& wrt) {
    const ValueId loss_value = find_loss(loss);
    std::vector<ValueId> targets;
    for (const auto& name : wrt) targets.push_back(find_target(name));
    mark_active(targets);
    gradients_.resize(forward_.values().size());
    {
      InfoScope scope(build_, NodeInfo().derived(NodePass::kBackward, "backward"));
      gradients_[index(loss_value)] = full(build_, forward_.type(loss_value).dtype, {}, 1.0);
    }
    for (NodeId id = static_cast<NodeId>(forward_.nodes().size()) - 1; id >= 0; --id) visit(id);
    for (size_t i = 0; i < wrt.size(); ++i) add_output(wrt[i], targets[i]);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }

  ValueId find_loss(const std::string& loss) const {
    const GraphOutput* output = forward_.find_output(loss);
    if (!output)
      throw Error({.what = "no such output to differentiate",
                   .where = "graph '" + forward_.name() + "'",
                   .found = "'" + loss + "'"});
    const TensorType& type = forward_.type(output->value);
    if (type.shape.rank() != 0 || !is_floating(type.dtype))
      throw Error({.what = "only a scalar can be differentiated",
                   .where = "output '" + loss + "' of graph '" + forward_.name() + "'",
                   .found = type.text(),
                   .expected = "f32[]"});
    return output->value;
  }

  ValueId find_target(const std::string& name) const {
    const ValueId id = forward_.find_input(name);
    if (id == kNoValue)
      throw Error({.what = "no such input to differentiate by",
                   .where = "graph '" + forward_.name() + "'",
                   .found = "'" + name + "'"});
    return id;
  }

  /// A value is active when it depends on a target through floating values.
  void mark_active(const std::vector<ValueId>& targets) {
    active_.assign(forward_.values().size(), false);
    for (ValueId target : targets) active_[index(target)] = true;
    for (const Node& node : forward_.nodes()) {
      bool active = false;
      for (ValueId input : node.inputs) active = active || active_[index(input)];
      if (!active || node.op->gradient_stops) continue;
      for (ValueId output : node.outputs)
        if (is_floating(forward_.type(output).dtype)) active_[index(output)] = true;
    }
  }

  void visit(NodeId id) {
    const Node& node = forward_.node(id);
    bool flows = false, wanted = false;
    for (ValueId output : node.outputs) flows = flows || gradients_[index(output)].valid();
    std::vector<bool> needed;
    for (ValueId input : node.inputs) {
      needed.push_back(active_[index(input)]);
      wanted = wanted || needed.back();
    }
    if (!flows || !wanted || node.op->gradient_stops) return;
    const NodeSignature signature = forward_.signature(id);
    if (!node.op->gradient)
      throw Error({.what = "op '" + node.op->name + "' has no gradient, and the loss depends on it",
                   .where = forward_.text_of(id)});
    std::vector<Tensor> inputs, outputs, output_gradients;
    for (ValueId input : node.inputs) inputs.push_back({&build_, copier_[input]});
    for (ValueId output : node.outputs) {
      outputs.push_back({&build_, copier_[output]});
      output_gradients.push_back(gradients_[index(output)]);
    }
    // Forward nodes have the same numbers in both graphs.
    const std::string name = node.name.empty() ? node.op->name : node.name;
    InfoScope scope(build_, result_.node(id).derived(NodePass::kBackward, name + "/backward"));
    GradientContext context{build_, signature, inputs, outputs, output_gradients, needed};
    const std::vector<Tensor> results = node.op->gradient(context);
    if (results.size() != node.inputs.size())
      internal_error("differentiate", "gradient of " + node.op->name + " gives a wrong number of tensors");
    for (size_t i = 0; i < results.size(); ++i)
      if (needed[i] && results[i].valid()) accumulate(node.inputs[i], results[i], signature);
  }

  void accumulate(ValueId input, Tensor gradient, const NodeSignature& node) {
    if (gradient.shape() != forward_.type(input).shape)
      internal_error("differentiate", "gradient of " + node.text() + " has shape " + gradient.shape().text() +
                                          " for an input of " + forward_.type(input).text());
    Tensor& sum = gradients_[index(input)];
    if (!sum.valid()) {
      sum = gradient;
    } else {
      // A gradient may be wider than its value (f32 gradients of bf16 weights); the wider type wins.
      if (sum.dtype() != gradient.dtype()) {
        if (size_of(sum.dtype()) < size_of(gradient.dtype()))
          sum = cast(sum, gradient.dtype());
        else
          gradient = cast(gradient, sum.dtype());
      }
      sum = add(sum, gradient);
    }
  }

  void add_output(const std::string& name, ValueId target) {
    InfoScope scope(build_, NodeInfo().derived(NodePass::kBackward, name + "/backward"));
    Tensor gradient = gradients_[index(target)];
    if (!gradient.valid()) gradient = full(build_, DType::kF32, forward_.type(target).shape, 0.0);
    if (gradient.dtype() != DType::kF32) gradient = cast(gradient, DType::kF32);
    result_.add_output("grad." + name, gradient.id);
  }

  const Graph& forward_;
  Graph& result_;
  GraphBuilder build_;
  GraphCopier copier_;
  std::vector<bool> active_;
  std::vector<Tensor> gradients_;
};

}  // namespace

Graph differentiate(const Graph& forward, const std::string& loss, const std::vector<std::string>& wrt) {
  Graph result(forward.name());
  Differentiator(forward, result).run(loss, wrt);
  return result;
}

}  // namespace ramet::transform
