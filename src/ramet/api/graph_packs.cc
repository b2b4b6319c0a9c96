#include <cstring>
#include <span>

#include "ramet/api/graph_lists.h"
#include "ramet/base/error.h"
#include "ramet/graphs.h"
#include "ramet/graphs/pack_text.h"

namespace ramet::api {
namespace {

void check(const v0::GraphLists& lists) {
  const auto refuse = [](const std::string& what, const std::string& found) {
    throw Error({.what = what, .where = "graphs", .found = found});
  };
  if (lists.node_ptr.empty() || lists.node_ptr.size() != lists.edge_ptr.size())
    refuse("nodes and edges of graphs are counted by two lists of one length",
           std::to_string(lists.node_ptr.size()) + " and " + std::to_string(lists.edge_ptr.size()));
  if (lists.source.size() != lists.target.size() || lists.edge_ptr.back() != static_cast<int64_t>(lists.source.size()))
    refuse("edges have a source and a target each", std::to_string(lists.source.size()) + " sources, " +
                                                        std::to_string(lists.target.size()) + " targets, " +
                                                        std::to_string(lists.edge_ptr.back()) + " edges");
  if (!lists.part.empty() && lists.node_ptr.back() != static_cast<int64_t>(lists.part.size()))
    refuse("every node is in a cluster", std::to_string(lists.part.size()) + " of them");
}

}  // namespace

graphs::GraphTables tables_of(const v0::GraphLists& lists) {
  check(lists);
  graphs::GraphTables tables = graphs::homogeneous_tables();
  tables.graphs = static_cast<int64_t>(lists.node_ptr.size()) - 1;
  tables.nodes.front().ptr = lists.node_ptr;
  graphs::EdgeTable& edges = tables.edges.front();
  edges.ptr = lists.edge_ptr, edges.source = lists.source, edges.target = lists.target;
  if (!lists.part.empty())
    tables.set_field({.name = "part", .per = graphs::Per::kNode, .of = "node", .dtype = DType::kI64}, lists.part);
  return tables;
}

}  // namespace ramet::api

namespace ramet::v0 {
namespace {

std::shared_ptr<const graphs::GraphSet> set_of(const GraphLists& lists) {
  graphs::GraphTables tables = api::tables_of(lists);
  // The set sorts edges: the field remembers the caller's order.
  std::vector<int64_t> rows(lists.source.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  tables.set_field({.name = "row", .per = graphs::Per::kEdge, .of = "edge", .dtype = DType::kI64}, rows);
  return std::make_shared<graphs::GraphSet>(std::move(tables), "graphs");
}

}  // namespace

struct GraphPacks::Contents {
  std::shared_ptr<const graphs::Packs> packs;
  std::vector<int64_t> rows;  ///< of the caller's edges, in the order of the set
};

GraphPacks::GraphPacks(const GraphLists& lists, const GraphPackOptions& options) {
  const auto set = set_of(lists);
  auto contents = std::make_shared<Contents>();
  contents->packs = graphs::make_packs(set, options.batch,
                                       {.members = options.members,
                                        .budget = {options.room.graphs, options.room.nodes, options.room.edges},
                                        .epochs = options.epochs,
                                        .oversize = options.trim ? graphs::Oversize::kTrim : graphs::Oversize::kRefuse,
                                        .shuffle = options.shuffle,
                                        .seed = options.seed});
  const std::span<const std::byte> bytes = set->bytes(set->field("edge.row"));
  contents->rows.resize(lists.source.size());
  if (!bytes.empty()) std::memcpy(contents->rows.data(), bytes.data(), bytes.size());
  contents_ = std::move(contents);
}

GraphPack GraphPacks::pack(int64_t index) const {
  if (index < 0) throw Error({.what = "packs are counted from 0", .where = "pack", .found = std::to_string(index)});
  graphs::PackContents made = contents_->packs->contents(index);
  GraphPack pack{.graphs = std::move(made.graphs),
                 .graph_ptr = std::move(made.graph_ptr),
                 .nodes = std::move(made.nodes),
                 .edges = std::move(made.edges),
                 .source = std::move(made.source),
                 .target = std::move(made.target),
                 .seeds = made.seeds,
                 .trimmed = made.trimmed};
  for (int64_t& edge : pack.edges) edge = contents_->rows[static_cast<size_t>(edge)];
  return pack;
}

int64_t GraphPacks::packs(int64_t epoch) const { return contents_->packs->epoch_packs(epoch); }

int64_t GraphPacks::first(int64_t epoch) const {
  int64_t sum = 0;
  for (int64_t each = 0; each < epoch; ++each) sum += packs(each);
  return sum;
}

GraphRoom GraphPacks::room() const {
  const graphs::GraphBudget budget = contents_->packs->budget();
  return {budget.graphs, budget.nodes, budget.edges};
}

int64_t GraphPacks::skipped() const { return contents_->packs->skipped(); }

}  // namespace ramet::v0
