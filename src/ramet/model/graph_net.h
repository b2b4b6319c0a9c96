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
  kGcn,   ///< Kipf and Welling, arXiv 1609.02907: reads edge.weight, which `ramet graphs prepare --apply gcn` makes
  kSage,  ///< Hamilton et al., arXiv 1706.02216, with the mean of the neighbours
  kGat,   ///< Velickovic et al., arXiv 1710.10903
  kGin    ///< Xu et al., arXiv 1810.00826: each layer's sums over a graph go to a classifier of their own
};
/// The family of a recipe's model.kind: "gcn", "sage", "gat", "gin"; nothing for another name.
std::optional<GraphFamily> graph_family(const std::string& kind);
std::vector<std::string> graph_kinds();

struct GraphNetConfig {
  GraphFamily family = GraphFamily::kGcn;
  int64_t layers = 2;
  int64_t hidden = 16;           ///< features of a layer; GAT: of a head
  int64_t heads = 8;             ///< of GAT; its last layer has one
  double dropout = 0.5;          ///< GCN, SAGE, GAT: of each layer's input; GIN: of each classifier's output
  double attention_dropout = 0;  ///< of GAT's weights
  double momentum = 0.1;         ///< of GIN's batch norms
  std::string readout = "sum";   ///< of the nodes of a graph: "sum", "mean" or "max"
};

/// A field of nodes that a network reads.
struct NodeFeature {
  std::string key;         ///< "node.x"
  int64_t width = 0;       ///< of floats; of categories 0
  int64_t categories = 0;  ///< of integers, which become one-hot rows
};

/// What a network reads, and how many answers it gives.
struct GraphTask {
  int64_t micro_batch = 1;                        ///< packs; of a graph that is cut all of its clusters
  std::shared_ptr<const graphs::GraphCut> cut{};  ///< null: packs know nothing of one another
  graphs::GraphBudget room;
  std::vector<NodeFeature> features;
  bool edge_weights = false;  ///< edge.weight is there
  bool per_graph = false;     ///< a class for each graph instead of each node
  int64_t classes = 2;
  int64_t seed = 0;
};

/// The network with its loss, on the batches of graphs/graph_source.h. Outputs: loss, correct, count. The program
/// "predict" reads no labels: classes i32 and probabilities f32 of nodes [B * N, K] or graphs [B * G, K]. Weights have
/// PyTorch Geometric's names. Throws Error when sizes contradict each other.
Model build_graph_net(const GraphNetConfig& config, const GraphTask& task);

}  // namespace ramet::model
