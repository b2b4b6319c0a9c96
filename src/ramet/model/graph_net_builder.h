#pragma once

#include <string>
#include <vector>

#include "ramet/model/blocks.h"
#include "ramet/model/graph_net.h"
#include "ramet/ops/build_graphs.h"

namespace ramet::model {

/// Deviation of Glorot and Bengio's uniform distribution (2010), and of that of PyTorch's linear layers.
double glorot(int64_t in, int64_t out);
double of_linear(int64_t in);

/// Writes a network on graphs: its inputs, the parts that families share, and its end. Tensors of nodes are [B, N, F],
/// of edges [B, E, F], of graphs [B, G, F].
class GraphNetBuilder {
 public:
  enum class Use { kTrain, kEvaluate, kPredict };

  /// `weights` and `states` are null for a second graph of the same model.
  GraphNetBuilder(const GraphNetConfig& config, const GraphTask& task, Graph& graph, std::vector<StateTensor>* weights,
                  std::vector<StateTensor>* states, Use use);

  const GraphNetConfig& config() const { return config_; }
  const GraphTask& task() const { return task_; }
  GraphBuilder& build() { return build_; }
  ModelBuilder& model() { return model_; }

  // --- inputs; each is declared when it is first asked for ---
  const NeighborLists& lists();
  const PairLists& pairs();
  Tensor edge_weights();
  Tensor graph_ptr();
  /// All features of nodes, or of edges, side by side. Sparse features of nodes are an invalid tensor, which `width`,
  /// `drop` and `product` take.
  Tensor node_features();
  Tensor edge_features();
  /// The categories of the only feature of nodes, i32 [B, N].
  Tensor node_categories();

  // --- layers ---
  /// x W^T with "NAME" [out, in]; x W^T + b with "NAME.weight" and "NAME.bias".
  Tensor product(Tensor x, const std::string& name, int64_t out, double deviation);
  Tensor dense(Tensor x, const std::string& name, int64_t out);
  Tensor dense(Tensor x, const std::string& name, int64_t out, double deviation);
  Tensor bias(Tensor x, const std::string& name);
  Tensor number(double value);
  /// Over the nodes that there are; with running statistics, which evaluations use.
  Tensor batch_norm_of_nodes(Tensor x, const std::string& name);
  Tensor drop(Tensor x, double rate, const std::string& name);
  int64_t width(Tensor x) const { return x.valid() ? x.dim(-1) : task_.features[0].width; }

  // --- along edges ---
  Tensor pointers() { return lists().ptr; }  ///< of the edges that end in each node
  /// For each node the sum over its edges of weight times the source's row (ops::neighbor_sum).
  Tensor sum_of_neighbors(Tensor x, Tensor weight = {}) { return neighbor_sum(x, lists(), weight); }
  Tensor of_sources(Tensor x);  ///< each edge gets its source's row
  Tensor of_targets(Tensor x);  ///< each edge gets its target's row
  Tensor degrees();             ///< edges that end in a node, f32 [B, N, 1]
  Tensor inverse_degree();      ///< 1 over it; 1 for a node without edges
  Tensor neighbor_mean(Tensor x);
  /// What `readout` makes of the nodes of each graph.
  Tensor of_graphs(Tensor x);

  /// The loss and the metrics of the answers: logits, or numbers [B, ..., answers].
  void finish(Tensor answers);

 private:
  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims);
  Tensor side_by_side(const std::vector<GraphFeature>& fields, int64_t rows);
  Tensor node_mask();
  Tensor sparse_product(Tensor weight);
  void declare(const std::string& name, int64_t size, double first);
  void predict(Tensor rows);
  void finish_classes(Tensor logits);
  void finish_numbers(Tensor values);
  Tensor row_of(const std::vector<double>& values);

  const GraphNetConfig& config_;
  const GraphTask& task_;
  const Use use_;
  ModelBuilder model_;
  GraphBuilder& build_;
  std::vector<StateTensor>* const states_;
  NeighborLists lists_;
  PairLists pairs_;
  NeighborLists features_;  ///< of sparse features
  Tensor feature_values_;
  Tensor edge_weights_, edge_features_, graph_ptr_;
};

}  // namespace ramet::model
