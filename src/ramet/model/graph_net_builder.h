#pragma once

#include <string>
#include <vector>

#include "ramet/model/blocks.h"
#include "ramet/model/graph_net.h"
#include "ramet/ops/build_graphs.h"
#include "ramet/ops/build_random.h"

namespace ramet::model {

/// Deviation of Glorot and Bengio's uniform distribution (2010), and of that of PyTorch's linear layers.
double glorot(int64_t in, int64_t out);
double of_linear(int64_t in);

/// The problem of a task that has one.
GraphTarget only_target(const GraphNetConfig& config, const GraphTask& task);

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
  bool trains() const { return use_ == Use::kTrain; }
  GraphBuilder& build() { return build_; }
  ModelBuilder& model() { return model_; }

  // --- inputs; each is declared when it is first asked for ---
  const NeighborLists& lists();
  const HaloGraph& halo();  ///< of a graph that is cut, in place of `lists`
  const PairLists& pairs();
  Tensor edge_weights();
  Tensor graph_ptr();
  /// All features of nodes, or of edges, side by side. Sparse features of nodes are an invalid tensor, which `width`,
  /// `drop` and `product` take.
  Tensor node_features();
  Tensor edge_features();
  /// All positions of nodes side by side; an invalid tensor where there are none.
  Tensor positions();
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
  /// With the rate `drop_path`, nothing of x for all nodes of a graph, and otherwise more of it (Huang et al., arXiv
  /// 1603.09382): one draw a graph.
  Tensor drop_graphs(Tensor x, const std::string& name);
  int64_t width(Tensor x) const { return x.valid() ? x.dim(-1) : task_.features[0].width; }

  // --- along edges ---
  Tensor pointers() { return task_.cut ? halo().ptr : lists().ptr; }  ///< of the edges that end in each node
  /// For each node the sum over its edges of weight times the source's row (ops::neighbor_sum, halo_sum).
  Tensor sum_of_neighbors(Tensor x, Tensor weight = {}) {
    return task_.cut ? halo_sum(x, halo(), weight) : neighbor_sum(x, lists(), weight);
  }
  Tensor of_sources(Tensor x);  ///< each edge gets its source's row
  Tensor of_targets(Tensor x);  ///< each edge gets its target's row
  Tensor degrees();             ///< edges that end in a node, f32 [B, N, 1]
  Tensor inverse_degree();      ///< 1 over it; 1 for a node without edges
  Tensor neighbor_mean(Tensor x);
  /// What `readout` makes of the nodes of each graph.
  Tensor of_graphs(Tensor x);
  /// Rows of graphs [B, G, ...] given to each of their nodes; 0 at places without a node.
  Tensor to_nodes(Tensor of_graphs) { return segment_expand(of_graphs, graph_ptr(), task_.room.nodes); }
  /// Attention among the nodes of each graph, which their distances may change: qkv [B, N, 3 hidden] -> [B, N, hidden].
  /// Dropout draws by `name`.
  Tensor attention_within_graphs(Tensor qkv, const std::string& name);
  /// Adds the loss of telling the categories that noise has replaced, from the nodes of the last layer.
  void add_noise_loss(Tensor nodes);

  /// The loss and the metrics of the answers: logits, or numbers [B, ..., answers].
  void finish(Tensor answers);
  /// The same of several tasks, whose heads read the nodes [B, N, F] of the last layer (model/graph_tasks.cc).
  void finish_tasks(Tensor nodes);

 private:
  Tensor input(const std::string& name, DType dtype, std::vector<int64_t> dims);
  Tensor side_by_side(const std::vector<GraphFeature>& fields, int64_t rows, Per per);
  Tensor categories(const GraphFeature& field, int64_t rows, Per per);
  /// 1 for graphs that keep the input, 0 for others, f32 [B, G, 1]; an invalid tensor where all keep it.
  Tensor kept_by(const std::string& key);
  Tensor edge_mask();
  Tensor distance_bias();
  Tensor attention_by_distance(Tensor qkv, const std::string& name);
  DrawBy draw_by(const std::string& name) {
    return {.counter = model_.counter(), .seed = task_.seed, .random_name = name};
  }
  Tensor node_mask();
  Tensor nodes_in_use();
  struct NodeMoments {
    Tensor mean, variance, count;
  };
  NodeMoments moments_of_nodes(Tensor x);
  /// [out, features of x].
  Tensor weight_of(Tensor x, const std::string& name, int64_t out, double deviation);
  Tensor sparse_product(Tensor weight);
  void declare(const std::string& name, int64_t size, double first);
  int64_t rows_of(const GraphTarget& target) const;
  Tensor head_of(const GraphTarget& target, Tensor nodes);
  void predict(const GraphTarget& target, Tensor rows);
  /// Adds a target's outputs, whose names begin with its name; gives its loss.
  Tensor loss_of(const GraphTarget& target, Tensor rows);
  void give_loss_output(const GraphTarget& target, Tensor loss);
  Tensor class_loss(const GraphTarget& target, Tensor logits);
  Tensor number_loss(const GraphTarget& target, Tensor values);
  Tensor row_of(const std::vector<double>& values);

  const GraphNetConfig& config_;
  const GraphTask& task_;
  const Use use_;
  ModelBuilder model_;
  GraphBuilder& build_;
  std::vector<StateTensor>* const states_;
  NeighborLists lists_;
  HaloGraph halo_;
  PairLists pairs_;
  NeighborLists features_;  ///< of sparse features
  Tensor feature_values_;
  Tensor edge_weights_, edge_features_, graph_ptr_;
  Tensor place_, node_at_, taken_;  ///< graphs/near_nodes.h
  Tensor distance_bias_;            ///< [B G, heads, M, M]
  Tensor mask_draw_;                ///< one number in [0, 1) for each graph, f32 [B, G, 1]
  /// Fields that noise changes, with their right categories, i32 [B, rows].
  struct Replaced {
    GraphFeature field;
    Per per;
    Tensor right;
  };
  std::vector<Replaced> replaced_;
  Tensor noise_loss_;     ///< of these, once it is there
  Tensor graph_numbers_;  ///< of the graph of each node, from 1, i32 [B, N]; 0: no node
};

}  // namespace ramet::model
