#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "ramet/base/error_types.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"

namespace ramet::graphs {
namespace {

/// The number of a cell; false where it is none. An empty cell is NaN.
bool number_of(const std::string& cell, double& value) {
  value = std::numeric_limits<double>::quiet_NaN();
  if (cell.empty()) return true;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value);
}

class CsvReader {
 public:
  CsvReader(std::string_view edges, std::string_view nodes, std::string_view graphs, const std::string& source)
      : edges_(parse_csv(edges, source + " (edges)")), tables_(homogeneous_tables()) {
    if (!nodes.empty()) nodes_ = parse_csv(nodes, source + " (nodes)");
    if (!graphs.empty()) graphs_ = parse_csv(graphs, source + " (graphs)");
  }

  GraphTables read() {
    number_graphs();
    number_nodes();
    sort_edges();
    add_fields(edges_, edge_rows_, Per::kEdge, "edge", {"source", "target", "graph"});
    add_fields(nodes_, node_rows_, Per::kNode, "node", {"node", "graph"});
    add_fields(graphs_, graph_rows_, Per::kGraph, "", {"graph"});
    return std::move(tables_);
  }

 private:
  [[noreturn]] static void fail(const CsvTable& table, size_t row, const std::string& what, const std::string& found,
                                const std::string& expected = "") {
    throw FormatError({.what = what,
                       .where = table.source + ":" + std::to_string(table.lines[row]),
                       .found = "'" + found.substr(0, 100) + "'",
                       .expected = expected});
  }

  /// Name of the graph of a row: "" where the table has no such column.
  static const std::string& graph_name(const CsvTable& table, size_t row) {
    static const std::string none;
    const int64_t column = table.find("graph");
    return column < 0 ? none : table.rows[row][static_cast<size_t>(column)];
  }

  int32_t graph_of(const CsvTable& table, size_t row, bool may_add) {
    const std::string& name = graph_name(table, row);
    const auto before = std::ssize(graph_names_.all());
    const int32_t graph = graph_names_.number_of(name);
    if (!may_add && graph >= before) fail(table, row, "a row is of a graph that the first table does not name", name);
    return graph;
  }

  void number_graphs() {
    for (size_t row = 0; row < graphs_.rows.size(); ++row) {
      static_cast<void>(graphs_.at("graph"));
      if (graph_of(graphs_, row, true) != std::ssize(graph_rows_))
        fail(graphs_, row, "a graph stands twice", graph_name(graphs_, row));
      graph_rows_.push_back(row);
    }
    const bool open = graphs_.rows.empty();
    for (size_t row = 0; row < nodes_.rows.size(); ++row) graph_of(nodes_, row, open);
    for (size_t row = 0; row < edges_.rows.size(); ++row) graph_of(edges_, row, open && nodes_.rows.empty());
    tables_.graphs = std::ssize(graph_names_.all());
    if (tables_.graphs == 0) throw FormatError({.what = "the tables have no rows", .where = edges_.source});
  }

  /// Node `name` of a graph, as its number in the graph.
  int32_t node(const CsvTable& table, size_t row, int32_t graph, const std::string& name, bool may_add) {
    std::map<std::string, int32_t>& of = numbers_[static_cast<size_t>(graph)];
    const auto [found, is_new] = of.try_emplace(name, static_cast<int32_t>(of.size()));
    if (is_new && !may_add) fail(table, row, "an edge names a node that the table of nodes does not have", name);
    return found->second;
  }

  void number_nodes() {
    numbers_.resize(static_cast<size_t>(tables_.graphs));
    const auto by_graph = rows_by_graph(nodes_);
    const int64_t named = nodes_.find("node");
    for (size_t graph = 0; graph < by_graph.size(); ++graph)
      for (const size_t row : by_graph[graph]) {
        const std::string name =
            named < 0 ? std::to_string(numbers_[graph].size()) : nodes_.rows[row][static_cast<size_t>(named)];
        const size_t before = numbers_[graph].size();
        node(nodes_, row, static_cast<int32_t>(graph), name, true);
        if (numbers_[graph].size() == before) fail(nodes_, row, "a node stands twice in its graph", name);
        node_rows_.push_back(row);
      }
  }

  std::vector<std::vector<size_t>> rows_by_graph(const CsvTable& table) {
    std::vector<std::vector<size_t>> rows(static_cast<size_t>(tables_.graphs));
    for (size_t row = 0; row < table.rows.size(); ++row)
      rows[static_cast<size_t>(graph_of(table, row, false))].push_back(row);
    return rows;
  }

  void sort_edges() {
    const size_t source = edges_.at("source"), target = edges_.at("target");
    EdgeTable& edges = tables_.edges[0];
    const bool open = nodes_.rows.empty();
    const auto by_graph = rows_by_graph(edges_);
    for (size_t graph = 0; graph < by_graph.size(); ++graph) {
      for (const size_t row : by_graph[graph]) {
        const auto number = static_cast<int32_t>(graph);
        edges.source.push_back(node(edges_, row, number, edges_.rows[row][source], open));
        edges.target.push_back(node(edges_, row, number, edges_.rows[row][target], open));
        edge_rows_.push_back(row);
      }
      edges.ptr.push_back(std::ssize(edges.source));
      tables_.nodes[0].ptr.push_back(tables_.nodes[0].ptr.back() + std::ssize(numbers_[graph]));
    }
  }

  void add_fields(const CsvTable& table, const std::vector<size_t>& rows, Per per, const std::string& of,
                  const std::vector<std::string>& keys) {
    for (size_t column = 0; column < table.header.size() && !rows.empty(); ++column) {
      const std::string& name = table.header[column];
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      Field field{.name = name, .per = per, .of = of};
      std::vector<double> numbers(rows.size());
      bool all = true, missing = false;
      for (size_t i = 0; i < rows.size() && all; ++i) {
        all = number_of(table.rows[rows[i]][column], numbers[i]);
        missing = missing || std::isnan(numbers[i]);
      }
      if (all) {
        field.dtype = DType::kF64;
        field.missing = missing;
        tables_.set_field(std::move(field), numbers);
        continue;
      }
      Names names;
      std::vector<int32_t> categories;
      for (const size_t row : rows) {
        const std::string& cell = table.rows[row][column];
        categories.push_back(cell.empty() ? -1 : names.number_of(cell));
        if (cell.empty()) field.missing = true;
      }
      field.dtype = DType::kI32;
      field.values = names.all();
      tables_.set_field(std::move(field), categories);
    }
  }

  CsvTable edges_, nodes_, graphs_;
  GraphTables tables_;
  Names graph_names_;
  std::vector<std::map<std::string, int32_t>> numbers_;  // of nodes, by graph and name
  std::vector<size_t> edge_rows_, node_rows_, graph_rows_;
};

}  // namespace

GraphTables parse_csv_graphs(std::string_view edges, std::string_view nodes, std::string_view graphs,
                             const std::string& source) {
  return CsvReader(edges, nodes, graphs, source).read();
}

}  // namespace ramet::graphs
