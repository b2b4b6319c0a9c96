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

enum class Cell { kEmpty, kNumber, kNotFinite, kWord };

/// What a cell holds. `value` is its number, and NaN where it is empty. A number may have blanks around it and a plus.
Cell read_cell(std::string_view cell, double& value) {
  value = std::numeric_limits<double>::quiet_NaN();
  cell = trimmed(cell);
  if (cell.empty()) return Cell::kEmpty;
  if (cell.starts_with('+')) cell.remove_prefix(1);
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (end != cell.data() + cell.size() || error == std::errc::invalid_argument) return Cell::kWord;
  return error == std::errc() && std::isfinite(value) ? Cell::kNumber : Cell::kNotFinite;
}

class CsvReader {
 public:
  CsvReader(const CsvFiles& files, const std::string& source)
      : edges_(parse_csv(files.edges, source + " (edges)")), tables_(homogeneous_tables()) {
    if (!files.nodes.empty()) nodes_ = parse_csv(files.nodes, source + " (nodes)");
    if (!files.graphs.empty()) graphs_ = parse_csv(files.graphs, source + " (graphs)");
    for (const std::string& name : files.categories) check_category(name, source);
    categories_ = files.categories;
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
                                const std::string& expected = "", const std::string& remedy = "") {
    throw FormatError({.what = what,
                       .where = table.source + ":" + std::to_string(table.lines[row]),
                       .found = "'" + found.substr(0, 100) + "'",
                       .expected = expected,
                       .remedy = remedy});
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

  void check_category(const std::string& name, const std::string& source) const {
    for (const CsvTable* table : {&edges_, &nodes_, &graphs_})
      if (table->find(name) >= 0) return;
    throw FormatError({.what = "no table has a column of this name, whose words would be categories",
                       .where = source,
                       .found = "'" + name + "'"});
  }

  void add_fields(const CsvTable& table, const std::vector<size_t>& rows, Per per, const std::string& of,
                  const std::vector<std::string>& keys) {
    for (size_t column = 0; column < table.header.size() && !rows.empty(); ++column) {
      const std::string& name = table.header[column];
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      Field field{.name = name, .per = per, .of = of};
      if (std::find(categories_.begin(), categories_.end(), name) != categories_.end() || has_words(table, column))
        add_categories(table, rows, column, std::move(field));
      else
        add_numbers(table, rows, column, std::move(field));
    }
  }

  /// Whether a column has words, and so no numbers. A column with both is refused: one mistyped number would make
  /// categories of all of them.
  static bool has_words(const CsvTable& table, size_t column) {
    double value = 0;
    int64_t word = -1, number = -1;
    for (int64_t row = std::ssize(table.rows) - 1; row >= 0; --row) {
      const std::string& cell = table.rows[static_cast<size_t>(row)][column];
      const Cell kind = read_cell(cell, value);
      if (kind == Cell::kNotFinite)
        fail(table, static_cast<size_t>(row), "column '" + table.header[column] + "' has a value that is not finite",
             cell, "a finite number, or an empty cell where the value is not known",
             "If these are words, name the column in --categories");
      if (kind == Cell::kWord) word = row;
      if (kind == Cell::kNumber) number = row;
    }
    if (word < 0 || number < 0) return word >= 0;
    fail(table, static_cast<size_t>(word), "column '" + table.header[column] + "' has both numbers and other words",
         table.rows[static_cast<size_t>(word)][column],
         "a number, as in line " + std::to_string(table.lines[static_cast<size_t>(number)]) +
             ", or an empty cell where the value is not known",
         "If these are words, name the column in --categories");
  }

  void add_numbers(const CsvTable& table, const std::vector<size_t>& rows, size_t column, Field field) {
    std::vector<double> numbers(rows.size());
    for (size_t i = 0; i < rows.size(); ++i)
      if (read_cell(table.rows[rows[i]][column], numbers[i]) == Cell::kEmpty) field.missing = true;
    field.dtype = DType::kF64;
    tables_.set_field(std::move(field), numbers);
  }

  void add_categories(const CsvTable& table, const std::vector<size_t>& rows, size_t column, Field field) {
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

  CsvTable edges_, nodes_, graphs_;
  std::vector<std::string> categories_;
  GraphTables tables_;
  Names graph_names_;
  std::vector<std::map<std::string, int32_t>> numbers_;  // of nodes, by graph and name
  std::vector<size_t> edge_rows_, node_rows_, graph_rows_;
};

}  // namespace

GraphTables parse_csv_graphs(const CsvFiles& files, const std::string& source) {
  return CsvReader(files, source).read();
}

}  // namespace ramet::graphs
