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
  kGine,      ///< Hu et al., arXiv 1905.12265: GIN's layer with features of edges, and a batch norm behind it
  kPna,       ///< Corso et al., arXiv 2004.05718: mean, min, max and deviation, each scaled by the degree in three ways
  kEdgeConv,  ///< Wang et al., arXiv 1801.07829
  kMpnn,      ///< Gilmer et al., arXiv 1704.01212: edge networks and a gated unit with one set of weights in all layers
  kClusterGcn,  ///< Chiang et al., arXiv 1905.07953, equation 11
  kSchNet,      ///< Schuett et al., arXiv 1706.08566: reads pairs of nodes with their distances
  kGps          ///< Rampasek et al., arXiv 2205.12454: GINE beside attention among all nodes of a graph
};
/// What a family reads beside the features of nodes, and what it can have.
struct GraphFamilyInfo {
  GraphFamily family;
  std::string kind;           ///< model.kind of a recipe
  bool edge_weights = false;  ///< edge.weight
  bool edge_features = false;
  bool pairs = false;            ///< pairs of nodes with distances, in place of lists of edges
  bool positions = false;        ///< GraphTask::positions
  bool degrees = false;          ///< GraphTask::average_log_degree
  bool shares_nodes = true;      ///< whether several tasks may read the nodes of its last layer
  bool sparse_features = false;  ///< whether its first layer takes sparse features
  bool correctable = false;      ///< whether its sums over edges are weighted ones, or means
};
const std::vector<GraphFamilyInfo>& graph_families();
const GraphFamilyInfo& info_of(GraphFamily family);
/// The family of a recipe's model.kind; nothing for another name.
std::optional<GraphFamily> graph_family(const std::string& kind);
std::vector<std::string> graph_kinds();

/// Inputs that a graph loses together in training.
struct InputMask {
  std::vector<std::string> inputs;  ///< keys of features or positions, "hops" or "distances"
  double rate = 0;                  ///< share of the graphs
};

struct GraphNetConfig {
  GraphFamily family = GraphFamily::kGcn;
  int64_t layers = 2;
  int64_t hidden = 16;   ///< features of a layer; GAT: of a head
  int64_t heads = 8;     ///< of GAT, whose last layer has one, and of GPS
  double dropout = 0.5;  ///< of each layer's input; GIN: of each classifier's output; GPS: of branches; SchNet: none
  double attention_dropout = 0;  ///< of the weights of GAT and GPS
  double momentum = 0.1;         ///< of the batch norms of GIN, GINE and GPS
  std::string readout = "sum";   ///< of the nodes of a graph: "sum", "mean" or "max"
  std::string loss = "squared";  ///< of numbers: "squared" or "absolute"; of tasks of yes or no: "binary"
  double diagonal = 0;           ///< Cluster-GCN's lambda
  int64_t gaussians = 50;        ///< SchNet's radial basis functions
  double cutoff = 10;            ///< SchNet's greatest distance
  int64_t filter_points = 0;     ///< SchNet: distances at which a table holds each filter; 0: filters are exact
  int64_t position_size = 8;     ///< GPS: features of a node, of `hidden`, that are made of its positions
  double drop_path = 0;          ///< GPS: rate at which a graph goes past a branch of a layer
  /// GPS: rates at which a category of a node, or of an edge, is another one in training; the network learns to tell
  /// the right one from what its last layer gives (Godwin et al., arXiv 2106.07971), with `noise_weight` in the loss.
  double node_noise = 0, edge_noise = 0, noise_weight = 0.1;
  /// GPS: groups of inputs, of which a graph loses at most one (Masters et al., arXiv 2302.02947).
  std::vector<InputMask> input_masks{};
};

/// A field of nodes or edges that a network reads.
struct GraphFeature {
  std::string key;         ///< "node.x"
  int64_t width = 0;       ///< of floats; of categories 0
  int64_t categories = 0;  ///< of integers, which become one-hot rows
  bool sparse = false;     ///< floats come as lists of those that are not 0 (the only feature of the nodes)
  int64_t room = 0;        ///< of such lists
  bool scalar = false;     ///< of floats: one without a dimension of its own
};

/// One of several problems that a network learns at once.
struct GraphTarget {
  std::string name;
  Per per = Per::kGraph;
  std::string loss = "squared";  ///< "squared" or "absolute" of numbers, "binary" of yes or no, "classes" of a category
  double weight = 1;             ///< of its mean in the loss
  int64_t classes = 0;           ///< of a category
  std::vector<double> mean{}, deviation{};  ///< as GraphTask's, of all others

  int64_t answers() const { return loss == "classes" ? classes : static_cast<int64_t>(mean.size()); }
};

/// What a network reads, and how many answers it gives.
struct GraphTask {
  int64_t micro_batch = 1;                        ///< packs; of a graph that is cut all of its clusters
  bool sums_in_order = false;                     ///< over all packs, so that no bit depends on which packs there are
  std::shared_ptr<const graphs::GraphCut> cut{};  ///< null: packs know nothing of one another
  graphs::GraphBudget room;
  std::vector<GraphFeature> features;
  std::vector<GraphFeature> edge_features{};
  std::vector<GraphFeature> positions{};  ///< floats that say where a node is in its graph; empty: none
  bool edge_weights = false;              ///< edge.weight is there
  /// Batches are samples of one graph, whose weights of edges and of labels correct what the samples leave out (Zeng et
  /// al., arXiv 1907.04931): "edge.weight", of a mean over neighbours too, and "label_weight".
  bool corrected = false;
  bool per_graph = false;  ///< an answer for each graph instead of each node
  int64_t classes = 2;
  /// Of targets that are numbers, instead of classes: their mean and deviation. A network predicts
  /// (target - mean) / deviation. Tasks of yes or no have targets of 1 or 0, the mean 0 and the deviation 1.
  std::vector<double> target_mean{}, target_deviation{};
  double average_log_degree = 1;     ///< PNA: mean of log(edges into a node + 1) over the training data
  std::vector<GraphTarget> tasks{};  ///< in place of the one problem that the fields above tell
  /// Of attention that knows how far nodes are apart: places of a graph's nodes, the most steps along edges that are
  /// told apart (0: they do not count), and whether there are distances in space.
  int64_t places = 0, hops = 0;
  bool distances = false;
  int64_t seed = 0;

  int64_t targets() const { return static_cast<int64_t>(target_mean.size()); }  ///< 0: classes
  int64_t answers() const { return targets() > 0 ? targets() : classes; }
};

/// The network with its loss, on the batches of graphs/graph_source.h. Outputs of a classifier: loss, correct, count.
/// Outputs for numbers: loss, absolute (the mean absolute error in the targets' unit), count. Outputs for tasks of yes
/// or no: loss (the mean cross-entropy of the known targets), correct, count. The program "predict" reads no labels. It
/// gives nodes or graphs [B, items]: classes i32, logits and probabilities f32 [B, items, classes], or values f32
/// [B, items, targets], or logits and probabilities of yes f32 [B, items, targets]. With several tasks, the outputs
/// of task T are "T.loss", "T.count" and so on, and the loss is the sum of the tasks' losses, each times its weight. Of
/// corrected samples the loss is the mean of its packs' weighted sums, count the packs, and labelled the labels.
/// Weights have PyTorch Geometric's names. Throws Error when sizes contradict each other.
Model build_graph_net(const GraphNetConfig& config, const GraphTask& task);

}  // namespace ramet::model
