#include "ramet/graph_net.h"

#include "builder.h"
#include "graph_net.h"
#include "training.h"

namespace ramet_python {

using ramet::GraphNetOptions;

// Type, name and meaning of all options but the kind, in the order of GraphNetOptions.
#define RAMET_GRAPH_NET_OPTIONS(X)                                                                           \
  X(int64_t, layers, "Of messages.")                                                                         \
  X(int64_t, hidden, "Features of a node behind a layer; of gat and gatv2: of a head.")                      \
  X(int64_t, heads, "Of gat and gatv2, whose last layer has one, and of gps.")                               \
  X(double, dropout, "Of each layer's input; gin: of each classifier's answer; gps: of branches.")           \
  X(double, attention_dropout, "Of the weights of edges (gat, gatv2) or of pairs of nodes (gps).")           \
  X(double, momentum, "Of batch norms (gin, gine, gps).")                                                    \
  X(std::string, readout, "What a graph's answer reads of its nodes: 'sum', 'mean' or 'max'.")               \
  X(std::string, loss, "Of numbers: 'squared', 'absolute', or 'binary' of tasks of yes or no.")              \
  X(double, diagonal, "cluster_gcn: lambda.")                                                                \
  X(int64_t, gaussians, "schnet, gps: radial basis functions of a distance.")                                \
  X(double, cutoff, "schnet, gps: the greatest distance.")                                                   \
  X(int64_t, filter_points, "schnet: distances at which a table holds each filter; 0: filters are exact.")   \
  X(int64_t, position_size, "gps: features of a node that are made of its positions.")                       \
  X(double, drop_path, "gps: the rate at which a graph goes past a branch.")                                 \
  X(double, node_noise, "gps: the rate of wrong categories of nodes, which the network learns to tell.")     \
  X(double, edge_noise, "gps: the same of edges.")                                                           \
  X(double, noise_weight, "gps: of their loss.")                                                             \
  X(std::string, input_masks, "gps: 'INPUT+INPUT:RATE, ...': a graph loses at most one of these groups.")    \
  X(std::vector<std::string>, features, "Fields of nodes; categories become one-hot rows; or 'KEY:sparse'.") \
  X(std::vector<std::string>, edge_features, "Fields of edges, likewise (gine, mpnn, gps).")                 \
  X(std::vector<std::string>, positions, "gps: float fields that say where a node is in its graph.")         \
  X(int64_t, hops, "gps: the most steps between two nodes that attention tells apart.")                      \
  X(std::string, distances, "gps: a field of nodes with positions in space.")                                \
  X(std::string, label, "What is learned: a category of nodes or graphs, or floats of graphs.")              \
  X(std::vector<int64_t>, columns, "Of a label of floats; none: all.")                                       \
  X(double, factor, "Of a label of floats: its unit in results.")                                            \
  X(std::vector<std::string>, tasks, "In place of the label: 'NAME FIELD LOSS [WEIGHT]' of each problem.")   \
  X(std::string, split, "A category of graphs or nodes that says their part; '': all are trained on.")       \
  X(std::string, train, "The part to train on: a name, or a number of a field without names.")               \
  X(std::string, held_out, "The part that Data.held_out and graph_answers read.")                            \
  X(std::string, batch, "How packs are made: 'count:32', 'stream:256:608', 'neighbors:512:10,10', 'cut'.")   \
  X(bool, trim, "Whether what does not fit is left out; otherwise it is an Error.")                          \
  X(bool, shuffle, "Whether every epoch has a new order.")                                                   \
  X(double, epochs, "Of the run: packs have the exact room that it needs. 0: any number.")                   \
  X(int64_t, micro_batch, "Packs of a micro-batch; of 'cut' it is the number of clusters.")                  \
  X(uint64_t, seed, "Of the first weights and of the order of the graphs.")

namespace {

/// Of PyTraining or PyPredictor.
template <typename Engine>
void bind_answers(nb::module_& m, const char* engine) {
  m.def(
      "graph_answers",
      [](Engine& self, const GraphNetOptions& options, nb::object graphs) {
        const ramet::GraphSet set = graph_set_of(graphs);
        return to_python(self.run("graph_answers", [&](auto& run) { return ramet::graph_answers(run, options, set); }),
                         false);
      },
      nb::arg(engine), "options"_a, "graphs"_a,
      "Answers for the part that the options hold out, or without a split for all, in the order of their numbers: the "
      "arrays 'node' or 'graph' (numbers), 'classes', 'logits' and 'probabilities', or 'values'; and 'labels' or "
      "'targets'. A Predictor needs the program 'predict'.");
}

}  // namespace

ramet::GraphSet graph_set_of(nb::handle graphs) {
  if (!nb::cast<bool>(graphs.attr("homogeneous")))
    throw ramet::Error({.what = "a set of several types", .where = "graph_net", .expected = "nodes and edges of one"});
  const nb::object index = graphs.attr("edge_index")["edge"];
  const ramet::GraphLists lists{.node_ptr = numbers_of<int64_t>(graphs.attr("node_ptr")["node"], "node_ptr"),
                                .edge_ptr = numbers_of<int64_t>(graphs.attr("edge_ptr")["edge"], "edge_ptr"),
                                .source = numbers_of<int32_t>(index[0], "edge_index"),
                                .target = numbers_of<int32_t>(index[1], "edge_index")};
  const auto fields = nb::cast<nb::dict>(graphs.attr("fields"));
  const Feeds feeds(fields, nullptr);
  std::vector<std::string> missing;
  for (const nb::handle key : graphs.attr("missing")) missing.push_back(nb::cast<std::string>(key));
  return ramet::GraphSet(lists, feeds.views(), missing);
}

void bind_graph_net(nb::module_& m) {
  const GraphNetOptions first;
#define RAMET_PARAMETER(type, name, doc) , const type& name
#define RAMET_ASSIGN(type, name, doc) self->name = name;
#define RAMET_ARGUMENT(type, name, doc) , nb::arg(#name) = first.name
#define RAMET_MEMBER(type, name, doc) .def_rw(#name, &GraphNetOptions::name, doc)
  nb::class_<GraphNetOptions>(
      m, "GraphNetOptions",
      "A network that reads graphs, and how its batches are made. docs/graphs.md explains kinds, fields and batches; "
      "the keys model.graph.* and data.graphs.* of recipes have the same names.")
      .def(
          "__init__",
          [](GraphNetOptions* self, const std::string& kind RAMET_GRAPH_NET_OPTIONS(RAMET_PARAMETER)) {
            new (self) GraphNetOptions{.kind = kind};
            RAMET_GRAPH_NET_OPTIONS(RAMET_ASSIGN)
          },
          "kind"_a, nb::kw_only() RAMET_GRAPH_NET_OPTIONS(RAMET_ARGUMENT))
      .def_rw("kind", &GraphNetOptions::kind, "One of graph_net_kinds().") RAMET_GRAPH_NET_OPTIONS(RAMET_MEMBER);
#undef RAMET_PARAMETER
#undef RAMET_ASSIGN
#undef RAMET_ARGUMENT
#undef RAMET_MEMBER
  m.def(
      "graph_net",
      [](const GraphNetOptions& options, nb::object graphs) { return ramet::graph_net(options, graph_set_of(graphs)); },
      "options"_a, "graphs"_a,
      "The network with its loss, on batches of this GraphSet, which Data.graphs delivers. Metrics: loss and accuracy, "
      "or of floats loss and absolute. graph_answers runs its program 'predict'. Weights have PyTorch Geometric's "
      "names. Error for options that contradict each other or the graphs.");
  m.def("graph_net_kinds", &ramet::graph_net_kinds,
        "'gcn', 'sage', 'gat', 'gatv2', 'gin', 'gine', 'pna', 'edge_conv', 'mpnn', 'cluster_gcn', 'schnet', 'gps'.");
}

void bind_graph_net_runs(nb::module_& m) {
  bind_answers<PyTraining>(m, "training");
  bind_answers<PyPredictor>(m, "predictor");
}

}  // namespace ramet_python
