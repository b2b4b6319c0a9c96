#include "ramet/graphs.h"

#include <nanobind/stl/tuple.h>

#include "arrays.h"
#include "builder.h"

namespace ramet_python {
namespace {

nb::dict dict_of(const ramet::GraphPack& pack) {
  nb::dict made;
  made["graphs"] = array_of(pack.graphs);
  made["graph_ptr"] = array_of(pack.graph_ptr);
  made["nodes"] = array_of(pack.nodes);
  made["edges"] = array_of(pack.edges);
  made["source"] = array_of(pack.source);
  made["target"] = array_of(pack.target);
  made["seeds"] = pack.seeds;
  made["trimmed"] = pack.trimmed;
  return made;
}

}  // namespace

void bind_graphs(nb::module_& m) {
  nb::class_<ramet::GraphPacks>(m, "GraphPacks",
                                "Packs of graphs, or of parts of one graph, epoch after epoch. Pack i is a pure "
                                "function of the arguments and i. ramet.graphs has loaders that are made of it.")
      .def(
          "__init__",
          [](ramet::GraphPacks* self, nb::handle node_ptr, nb::handle edge_ptr, nb::handle source, nb::handle target,
             const std::string& batch, nb::object part, nb::object members, std::tuple<int64_t, int64_t, int64_t> room,
             int64_t epochs, bool trim, bool shuffle, uint64_t seed) {
            const ramet::GraphLists lists{
                .node_ptr = numbers_of<int64_t>(node_ptr, "node_ptr"),
                .edge_ptr = numbers_of<int64_t>(edge_ptr, "edge_ptr"),
                .source = numbers_of<int32_t>(source, "source"),
                .target = numbers_of<int32_t>(target, "target"),
                .part = part.is_none() ? std::vector<int64_t>{} : numbers_of<int64_t>(part, "part")};
            const auto& [graphs, nodes, edges] = room;
            new (self) ramet::GraphPacks(
                lists, {.batch = batch,
                        .members = members.is_none() ? std::vector<int64_t>{} : numbers_of<int64_t>(members, "members"),
                        .room = {graphs, nodes, edges},
                        .epochs = epochs,
                        .trim = trim,
                        .shuffle = shuffle,
                        .seed = seed});
          },
          "node_ptr"_a, "edge_ptr"_a, "source"_a, "target"_a, "batch"_a, nb::kw_only(), "part"_a = nb::none(),
          "members"_a = nb::none(), "room"_a = std::tuple<int64_t, int64_t, int64_t>{0, 0, 0}, "epochs"_a = 0,
          "trim"_a = false, "shuffle"_a = true, "seed"_a = uint64_t(0),
          "Graph g has nodes node_ptr[g] to node_ptr[g + 1] and edges edge_ptr[g] to edge_ptr[g + 1] (i64); `source` "
          "and "
          "`target` (i32) count nodes from 0 in each graph. `batch`: \"count:32\", \"stream:256:608\", "
          "\"neighbors:512:10,10\", \"clusters:4\" (of `part`), and so on. `members`: graphs, or nodes to begin at, "
          "that "
          "take part. `room`: graphs, nodes and edges; 0: what the packs need. `trim`: leaves out what does not fit.")
      .def(
          "pack", [](const ramet::GraphPacks& self, int64_t index) { return dict_of(self.pack(index)); }, "index"_a,
          "The arrays graphs, graph_ptr, nodes, edges (rows of all nodes and edges), source and target (places in "
          "`nodes`); and the numbers seeds (nodes that were sampled from; -1: all) and trimmed (edges left out).")
      .def("packs", &ramet::GraphPacks::packs, "epoch"_a, "How many packs an epoch has.")
      .def("first", &ramet::GraphPacks::first, "epoch"_a, "Number of the first pack of an epoch.")
      .def_prop_ro(
          "room",
          [](const ramet::GraphPacks& self) {
            const ramet::GraphRoom room = self.room();
            return std::tuple{room.graphs, room.nodes, room.edges};
          },
          "Graphs, nodes and edges that every pack fits in.")
      .def_prop_ro("skipped", &ramet::GraphPacks::skipped, "Graphs in no pack, because they do not fit.");
}

}  // namespace ramet_python
