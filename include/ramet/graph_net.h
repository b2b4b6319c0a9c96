#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/array.h"
#include "ramet/graphs.h"
#include "ramet/model.h"

namespace ramet::v0 {

class Predictor;
class Training;

/// Graphs with their fields, immutable; cheap to copy. docs/graphs.md explains the order of edges and the file.
class RAMET_API GraphSet {
 public:
  /// Graphs of the caller's arrays, which are copied: "node.NAME" of all nodes, "edge.NAME" of all edges, in the order
  /// of `lists`, and "graph.NAME" of all graphs. Each is [rows, ...], row-major, where what a row holds follows from
  /// the number of elements: floats, or one integer a row, a category 0, 1, 2, ... `missing` names fields in which some
  /// values are not known: NaN, or category -1. Throws Error for lists that contradict each other, for an edge to a
  /// node that its graph does not have, for a field of another length, and for a NaN in a field that misses nothing.
  GraphSet(const GraphLists& lists, const NamedViews& fields, const std::vector<std::string>& missing = {});
  /// Maps a file that `ramet graphs prepare` or save() wrote. Throws Error naming the file.
  static GraphSet open(const std::string& path);
  /// Writes a file that recipes, `ramet graphs` and Python read.
  void save(const std::string& path) const;

  int64_t graphs() const;
  std::vector<std::string> fields() const;  ///< keys, as "node.x"

  struct RAMET_PRIVATE Contents;
  const Contents& contents() const { return *contents_; }  ///< for the library

 private:
  explicit GraphSet(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

/// A network that reads graphs, and how its batches are made. The recipe's keys model.graph.* and data.graphs.* have
/// the same names and bounds; `ramet recipe --help model.graph` and docs/graphs.md explain them.
///
/// Kinds, and what they read beside features of nodes:
/// - "gcn": Kipf and Welling, arXiv 1609.02907. Edges have the field edge.weight, w / sqrt(d_source d_target),
///   and every node has an edge to itself;
/// - "sage": Hamilton et al., arXiv 1706.02216, with the mean of the neighbours;
/// - "gat": Velickovic et al., arXiv 1710.10903; "gatv2": Brody et al., arXiv 2105.14491;
/// - "gin": Xu et al., arXiv 1810.00826;
/// - "gine": Hu et al., arXiv 1905.12265, with a batch norm behind each layer; reads edge_features;
/// - "pna": Corso et al., arXiv 2004.05718;
/// - "edge_conv": Wang et al., arXiv 1801.07829;
/// - "mpnn": Gilmer et al., arXiv 1704.01212; reads edge_features;
/// - "cluster_gcn": Chiang et al., arXiv 1905.07953, equation 11;
/// - "schnet": Schuett et al., arXiv 1706.08566; reads one category of nodes, and the field edge.distance of edges that
///   go in both directions;
/// - "gps": Rampasek et al., arXiv 2205.12454; reads edge_features, and can read positions, hops and distances.
struct GraphNetOptions {
  std::string kind = "gcn";  ///< one of graph_net_kinds()
  int64_t layers = 2;        ///< of messages
  int64_t hidden = 16;       ///< features of a node behind a layer; of gat and gatv2: of a head
  int64_t heads = 8;         ///< of gat and gatv2 (whose last layer has one), and of gps
  double dropout = 0.5;  ///< of each layer's input; gin: of each classifier's answer; gps: of branches; schnet: none
  double attention_dropout = 0;  ///< of the weights of edges (gat, gatv2) or of pairs of nodes (gps)
  double momentum = 0.1;         ///< of batch norms (gin, gine, gps)
  std::string readout = "sum";   ///< what a graph's answer reads of its nodes: "sum", "mean" or "max"
  std::string loss = "squared";  ///< of numbers: "squared", "absolute", or "binary" of tasks of yes or no
  double diagonal = 0;           ///< cluster_gcn: lambda
  int64_t gaussians = 50;        ///< schnet, gps: radial basis functions of a distance
  double cutoff = 10;            ///< schnet, gps: the greatest distance
  int64_t filter_points = 0;     ///< schnet: distances at which a table holds each filter; 0: filters are exact
  int64_t position_size = 8;     ///< gps: features of a node, of `hidden`, that are made of its positions
  double drop_path = 0;          ///< gps: the rate at which a graph goes past a branch
  double node_noise = 0, edge_noise = 0;  ///< gps: rates of wrong categories
  double noise_weight = 0.1;              ///< gps: of the loss of telling them
  std::string input_masks{};  ///< gps: "INPUT+INPUT:RATE, ...", groups of inputs of which a graph loses at most one

  std::vector<std::string> features{"node.x"};  ///< fields of nodes; categories become one-hot rows; or "KEY:sparse"
  std::vector<std::string> edge_features{};     ///< fields of edges, likewise
  std::vector<std::string> positions{};         ///< gps: float fields that say where a node is in its graph
  int64_t hops = 0;                             ///< gps: the most steps between two nodes that attention tells apart
  std::string distances{};                      ///< gps: a field of nodes with positions in space
  /// What is learned: a category of nodes or graphs, or floats of graphs, each column in deviations from its mean.
  std::string label = "node.y";
  std::vector<int64_t> columns{};    ///< of a label of floats; empty: all
  double factor = 1;                 ///< of a label of floats: its unit in results
  std::vector<std::string> tasks{};  ///< several problems in place of `label`: "NAME FIELD LOSS [WEIGHT]"
  /// A category of graphs or nodes, "": all are trained on. `train` and `held_out` are names of its categories, or
  /// numbers.
  std::string split{}, train = "train", held_out = "validation";

  std::string batch = "count:1";  ///< how packs are made, as GraphPackOptions::batch, or "cut"
  bool trim = false;              ///< whether what does not fit is left out; otherwise it is an Error
  bool shuffle = true;            ///< whether every epoch has a new order
  double epochs = 0;              ///< of the run: packs have the exact room that it needs. 0: any number of epochs
  int64_t micro_batch = 1;        ///< packs of a micro-batch; of "cut" it is the number of clusters
  uint64_t seed = 0;              ///< of the first weights and of the order of the graphs
};

/// The network with its loss, on batches of these graphs, whose inputs Data::graphs delivers: B = micro_batch packs,
/// each with room for G graphs, N nodes and E edges. Metrics of categories: "loss" and "accuracy". Of floats: "loss"
/// and the mean "absolute" error in the label's unit. The program on request "predict" reads no label. It gives for
/// nodes or graphs [B, N or G]: "classes" i32, and "logits" and "probabilities" f32 [B, N or G, classes]; or "values"
/// f32 [B, G, columns]; or, of "binary", "logits" and "probabilities" of yes. graph_answers runs it. Weights have
/// PyTorch Geometric's names.
///
/// Throws Error, naming the key: for an unknown kind, for sizes below 1 or rates outside of their bounds, for a field
/// that the set does not have or that has another type, for a kind that lacks what it reads, and for graphs that do not
/// fit the packs.
RAMET_API Model graph_net(const GraphNetOptions& options, const GraphSet& graphs);

/// "gcn", "sage", "gat", "gatv2", "gin", "gine", "pna", "edge_conv", "mpnn", "cluster_gcn", "schnet", "gps".
RAMET_API std::vector<std::string> graph_net_kinds();

/// The answers of the program "predict" for the part of the graphs that `split` holds out, or without a split for all:
/// "node" or "graph" i64 [count], their numbers in the set, ascending; the results of "predict" [count, ...]; and
/// "labels" i32 [count] (-1: not of the part), or "targets" f32 [count, columns] (NaN: not known). Of several tasks the
/// names begin with the task's. The Predictor must have the program "predict".
RAMET_API Arrays graph_answers(Training& training, const GraphNetOptions& options, const GraphSet& graphs);
RAMET_API Arrays graph_answers(Predictor& predictor, const GraphNetOptions& options, const GraphSet& graphs);

}  // namespace ramet::v0
