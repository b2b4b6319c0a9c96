#include "ramet/transform/cluster_sums.h"

#include <algorithm>

#include "ramet/ops/build.h"
#include "ramet/ops/group_sums.h"
#include "ramet/ops/halo.h"

namespace ramet::transform {
namespace {

constexpr int kNowhere = -1;

class ClusterSums {
 public:
  ClusterSums(const Graph& graph, int64_t clusters)
      : source_(graph),
        clusters_(clusters),
        dim_(graph.values().size(), kNowhere),
        result_(graph.name()),
        build_(result_),
        copier_(source_, result_) {}

  Graph run() {
    copier_.copy_inputs();
    for (const GraphInput& input : source_.inputs())
      if (input.role == InputRole::kData && !input.axes.empty() && input.axes[0] == "clusters") dim_of(input.value) = 0;
    for (NodeId id = 0; id < static_cast<NodeId>(source_.nodes().size()); ++id) {
      const Node& node = source_.node(id);
      const NodeSignature signature = source_.signature(id);
      const bool sums = follow(node, signature);
      if (!sums || !put_in_clusters(id, signature)) copier_.copy_node(id);
    }
    copier_.copy_outputs();
    return std::move(result_);
  }

 private:
  int& dim_of(ValueId value) { return dim_[static_cast<size_t>(value)]; }

  /// Notes in which dimension of the outputs the clusters come first. Returns whether the node sums over them.
  bool follow(const Node& node, const NodeSignature& signature) {
    if (std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return dim_of(input) == kNowhere; }))
      return false;
    if (fetches_rows(*node.op)) {  // other rows of the same clusters
      dim_of(node.outputs[0]) = dim_of(node.inputs[0]);
      return false;
    }
    const ShardingRule rule = node.op->sharding(signature);
    int factor = kNowhere;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int dim = dim_of(node.inputs[i]);
      if (dim != kNowhere && !rule.inputs[i][static_cast<size_t>(dim)].empty())
        factor = rule.inputs[i][static_cast<size_t>(dim)][0];
    }
    if (factor == kNowhere) return false;
    bool found = false;
    for (size_t o = 0; o < node.outputs.size(); ++o)
      for (size_t dim = 0; dim < rule.outputs[o].size(); ++dim)
        if (!rule.outputs[o][dim].empty() && rule.outputs[o][dim][0] == factor)
          dim_of(node.outputs[o]) = static_cast<int>(dim), found = true;
    return !found;
  }

  /// Puts a sum for each cluster and the tree over them in place of the node, where there is such a form.
  bool put_in_clusters(NodeId id, const NodeSignature& signature) {
    const Node& node = source_.node(id);
    const TensorType& type = signature.outputs[0];
    if (!is_floating(type.dtype)) return false;
    std::vector<Tensor> inputs;
    for (const ValueId input : node.inputs) {
      if (dim_of(input) != 0) return false;
      inputs.push_back(build_.tensor(copier_[input]));
    }
    InfoScope scope(build_, copier_.info(id));
    SimplifyContext context{build_, signature, inputs};
    const Tensor sums = sums_of_groups(context, clusters_);
    if (!sums.valid()) return false;
    Attributes attributes{{"axes", std::vector<int64_t>{0}}, {"dtype", type.dtype}};
    if (clusters_ > 1) attributes.set("chunks", clusters_);
    const Tensor sum = build_.op("reduce_sum", {sums}, std::move(attributes));
    copier_.map(node.outputs[0], sum.id);
    copier_.stand_in(node.serial, result_.node(result_.value(sum.id).producer).serial);
    return true;
  }

  const Graph& source_;
  const int64_t clusters_;
  std::vector<int> dim_;  // of each value: where the clusters come first, or kNowhere
  Graph result_;
  GraphBuilder build_;
  GraphCopier copier_;
};

}  // namespace

int64_t clusters_of(const Graph& graph) {
  for (const GraphInput& input : graph.inputs())
    if (input.role == InputRole::kData && !input.axes.empty() && input.axes[0] == "clusters")
      return graph.type(input.value).shape[0];
  return 0;
}

Graph set_cluster_sums(const Graph& graph) {
  const int64_t clusters = clusters_of(graph);
  return clusters == 0 ? graph : ClusterSums(graph, clusters).run();
}

}  // namespace ramet::transform
