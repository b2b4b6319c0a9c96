#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/graphs/graph_cut.h"
#include "ramet/graphs/packs.h"
#include "ramet/model/model.h"

namespace ramet::model {

/// Networks that read graphs.
enum class GraphFamily {
  kGcn,       ///< Kipf and Welling, arXiv 1609.02907: reads edge.weight, which `ramet graphs prepare --apply gcn` makes
  kSage,      ///< Hamilton et al., arXiv 1706.02216, with the mean of the neighbours
  kGat,       ///< Velickovic et al., arXiv 1710.10903
  kGatV2,     ///< Brody et al., arXiv 2105.14491
  kGin,       ///< Xu et al., arXiv 1810.00826: each layer's sums over a graph go to a classifier of their own
  kGine,      ///< Hu et al., arXiv 1905.12265: GIN's layer with features of edges, without batch norms
  kPna,       ///< Corso et al., arXiv 2004.05718: mean, min, max and deviation, each scaled by the degree in three ways
  kEdgeConv,  ///< Wang et al., arXiv 1801.07829
  kMpnn,      ///< Gilmer et al., arXiv 1704.01212: edge networks and a gated unit with one set of weights in all layers
  kClusterGcn,  ///< Chiang et al., arXiv 1905.07953, equation 11
  kSchNet       ///< Schuett et al., arXiv 1706.08566: reads pairs of nodes with their distances
};
/// What a family reads beside the features of nodes, and what it can have.
struct GraphFamilyInfo {
  GraphFamily family;
  std::string kind;           ///< model.kind of a recipe
  bool edge_weights = false;  ///< edge.weight
  bool edge_features = false;
  bool pairs = false;            ///< pairs of nodes with distances, in place of lists of edges
  bool degrees = false;          ///< GraphTask::average_log_degree
  bool sparse_features = false;  ///< whether its first layer takes sparse features
};
const std::vector<GraphFamilyInfo>& graph_families();
const GraphFamilyInfo& info_of(GraphFamily family);
/// The family of a recipe's model.kind; nothing for another name.
std::optional<GraphFamily> graph_family(const std::string& kind);
std::vector<std::string> graph_kinds();

struct GraphNetConfig {
  GraphFamily family = GraphFamily::kGcn;
  int64_t layers = 2;
  int64_t hidden = 16;           ///< features of a layer; GAT: of a head
  int64_t heads = 8;             ///< of GAT; its last layer has one
  double dropout = 0.5;          ///< of each layer's input; GIN: of each classifier's output; SchNet: none
  double attention_dropout = 0;  ///< of GAT's weights
  double momentum = 0.1;         ///< of GIN's batch norms
  std::string readout = "sum";   ///< of the nodes of a graph: "sum", "mean" or "max"
  std::string loss = "squared";  ///< of numbers: "squared" or "absolute"; of tasks of yes or no: "binary"
  double diagonal = 0;           ///< Cluster-GCN's lambda
  int64_t gaussians = 50;        ///< SchNet's radial basis functions
  double cutoff = 10;            ///< SchNet's greatest distance
  int64_t filter_points = 0;     ///< SchNet: distances at which a table holds each filter; 0: filters are exact
};

/// A field of nodes or edges that a network reads.
struct GraphFeature {
  std::string key;         ///< "node.x"
  int64_t width = 0;       ///< of floats; of categories 0
  int64_t categories = 0;  ///< of integers, which become one-hot rows
  bool sparse = false;     ///< floats come as lists of those that are not 0 (the only feature of the nodes)
  int64_t room = 0;        ///< of such lists
};

/// What a network reads, and how many answers it gives.
struct GraphTask {
  int64_t micro_batch = 1;                        ///< packs; of a graph that is cut all of its clusters
  std::shared_ptr<const graphs::GraphCut> cut{};  ///< null: packs know nothing of one another
  graphs::GraphBudget room;
  std::vector<GraphFeature> features;
  std::vector<GraphFeature> edge_features{};
  bool edge_weights = false;  ///< edge.weight is there
  bool per_graph = false;     ///< an answer for each graph instead of each node
  int64_t classes = 2;
  /// Of targets that are numbers, instead of classes: their mean and deviation. A network predicts
  /// (target - mean) / deviation. Tasks of yes or no have targets of 1 or 0, the mean 0 and the deviation 1.
  std::vector<double> target_mean{}, target_deviation{};
  double average_log_degree = 1;  ///< PNA: mean of log(edges into a node + 1) over the training data
  int64_t seed = 0;

  int64_t targets() const { return static_cast<int64_t>(target_mean.size()); }  ///< 0: classes
  int64_t answers() const { return targets() > 0 ? targets() : classes; }
};

/// The network with its loss, on the batches of graphs/graph_source.h. Outputs of a classifier: loss, correct, count.
/// Outputs for numbers: loss, absolute (the mean absolute error in the targets' unit), count. Outputs for tasks of yes
/// or no: loss (the mean cross-entropy of the known targets), correct, count. The program "predict" reads no labels. It
/// gives nodes or graphs [B, items]: classes i32, logits and probabilities f32 [B, items, classes], or values f32
/// [B, items, targets], or logits and probabilities of yes f32 [B, items, targets]. Weights have PyTorch Geometric's
/// names. Throws Error when sizes contradict each other.
Model build_graph_net(const GraphNetConfig& config, const GraphTask& task);

}  // namespace ramet::model
