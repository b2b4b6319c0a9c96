#include <nlohmann/json.hpp>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"

namespace ramet::graphs {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& found = "",
                       const std::string& expected = "") {
  throw FormatError({.what = what, .where = where, .found = found, .expected = expected});
}

/// One whole number a line.
std::vector<int64_t> read_labels(std::string_view text, const std::string& source) {
  Lines lines(text, source);
  std::vector<int64_t> labels;
  while (lines.next())
    if (!trimmed(lines.line()).empty()) labels.push_back(lines.whole(lines.line(), INT32_MIN, INT32_MAX));
  return labels;
}

/// Numbers between commas, as many on each line.
struct Rows {
  int64_t width = 0;
  std::vector<float> values;
  int64_t rows() const { return width == 0 ? 0 : std::ssize(values) / width; }
};
Rows read_rows(std::string_view text, const std::string& source) {
  Lines lines(text, source);
  Rows rows;
  while (lines.next()) {
    if (trimmed(lines.line()).empty()) continue;
    const auto words = split_at(lines.line(), ',');
    if (rows.width == 0) rows.width = std::ssize(words);
    if (std::ssize(words) != rows.width)
      lines.fail("a line has another number of attributes than the first", std::to_string(words.size()),
                 std::to_string(rows.width));
    for (const std::string_view word : words) rows.values.push_back(static_cast<float>(lines.real(word)));
  }
  return rows;
}

void check_count(int64_t found, int64_t expected, const std::string& where, const std::string& things) {
  if (found != expected)
    fail(where, "the file does not have one line for each of the " + things, std::to_string(found) + " lines",
         std::to_string(expected));
}

void add_labels(GraphTables& tables, Field field, std::string_view text, const std::string& source,
                const std::string& things) {
  if (text.empty()) return;
  const std::vector<int64_t> labels = read_labels(text, source);
  check_count(std::ssize(labels), tables.count(field), source, things);
  add_categories(tables, std::move(field), labels);
}

void add_attributes(GraphTables& tables, Field field, std::string_view text, const std::string& source,
                    const std::string& things) {
  if (text.empty()) return;
  const Rows rows = read_rows(text, source);
  check_count(rows.rows(), tables.count(field), source, things);
  field.shape = Shape{rows.width};
  tables.set_field(std::move(field), rows.values);
}

/// The edges in the order of the file within each graph; `order` says from which line each came.
std::vector<int64_t> read_edges(GraphTables& tables, std::string_view text, const std::string& source,
                                const std::vector<int64_t>& graph_of) {
  Lines lines(text, source);
  const auto nodes = std::ssize(graph_of);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  std::vector<int64_t> counts(static_cast<size_t>(tables.graphs) + 1);
  while (lines.next()) {
    if (trimmed(lines.line()).empty()) continue;
    const auto words = split_at(lines.line(), ',');
    if (words.size() != 2) lines.fail("a line does not have the two nodes of an edge", lines.line(), "'i, j'");
    const int64_t from = lines.whole(words[0], 1, nodes) - 1, to = lines.whole(words[1], 1, nodes) - 1;
    if (graph_of[static_cast<size_t>(from)] != graph_of[static_cast<size_t>(to)])
      lines.fail("an edge joins nodes of different graphs", lines.line());
    pairs.emplace_back(from, to);
    ++counts[static_cast<size_t>(graph_of[static_cast<size_t>(from)]) + 1];
  }
  for (size_t g = 1; g < counts.size(); ++g) counts[g] += counts[g - 1];
  EdgeTable& edges = tables.edges[0];
  edges.ptr = counts;
  edges.source.resize(pairs.size());
  edges.target.resize(pairs.size());
  std::vector<int64_t> order(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto graph = static_cast<size_t>(graph_of[static_cast<size_t>(pairs[i].first)]);
    const int64_t first = tables.nodes[0].ptr[graph];
    const auto at = static_cast<size_t>(counts[graph]++);
    edges.source[at] = static_cast<int32_t>(pairs[i].first - first);
    edges.target[at] = static_cast<int32_t>(pairs[i].second - first);
    order[at] = static_cast<int64_t>(i);
  }
  return order;
}

/// Brings a field of edges from the order of lines to the order of the edges.
void arrange(GraphTables& tables, const std::string& key, const std::vector<int64_t>& order) {
  FieldTable* const table = tables.find(key);
  if (!table) return;
  const auto size = static_cast<size_t>(table->field.value_bytes());
  std::vector<std::byte> moved(table->bytes.size());
  for (size_t i = 0; i < order.size(); ++i)
    std::copy_n(table->bytes.begin() + static_cast<int64_t>(static_cast<size_t>(order[i]) * size), size,
                moved.begin() + static_cast<int64_t>(i * size));
  table->bytes = std::move(moved);
}

}  // namespace

GraphTables parse_tu(const TuFiles& files, const std::string& source) {
  GraphTables tables = homogeneous_tables();
  const std::string labels = source + "_graph_labels.txt", attributes = source + "_graph_attributes.txt";
  std::vector<int64_t> graph_of;
  std::vector<int64_t>& ptr = tables.nodes[0].ptr;
  Lines lines(files.graph_indicator, source + "_graph_indicator.txt");
  while (lines.next()) {
    if (trimmed(lines.line()).empty()) continue;
    // Numbers from 1 that ascend; a graph without nodes is a number that is left out.
    const int64_t graph = lines.whole(lines.line(), 1, INT32_MAX) - 1;
    if (!graph_of.empty() && graph < graph_of.back())
      lines.fail("the nodes are not in the order of their graphs", lines.line(),
                 "at least " + std::to_string(graph_of.back() + 1));
    graph_of.push_back(graph);
  }
  tables.graphs = !files.graph_labels.empty()       ? std::ssize(read_labels(files.graph_labels, labels))
                  : !files.graph_attributes.empty() ? read_rows(files.graph_attributes, attributes).rows()
                                                    : (graph_of.empty() ? 0 : graph_of.back() + 1);
  if (!graph_of.empty() && graph_of.back() >= tables.graphs)
    fail(source + "_graph_indicator.txt", "a node is of a graph that has no label", std::to_string(graph_of.back() + 1),
         "at most " + std::to_string(tables.graphs));
  if (tables.graphs > 100 * std::ssize(graph_of) + 1000)
    fail(source + "_graph_indicator.txt", "nearly all graphs have no nodes", std::to_string(tables.graphs) + " graphs",
         std::to_string(graph_of.size()) + " nodes");
  ptr.assign(static_cast<size_t>(tables.graphs) + 1, 0);
  for (const int64_t graph : graph_of) ++ptr[static_cast<size_t>(graph) + 1];
  for (size_t g = 1; g < ptr.size(); ++g) ptr[g] += ptr[g - 1];

  const std::vector<int64_t> order = read_edges(tables, files.edges, source + "_A.txt", graph_of);
  add_labels(tables, {.name = "y", .per = Per::kGraph}, files.graph_labels, labels, "graphs");
  add_attributes(tables, {.name = "attributes", .per = Per::kGraph}, files.graph_attributes, attributes, "graphs");
  add_labels(tables, {.name = "label", .of = "node"}, files.node_labels, source + "_node_labels.txt", "nodes");
  add_attributes(tables, {.name = "attributes", .of = "node"}, files.node_attributes, source + "_node_attributes.txt",
                 "nodes");
  add_labels(tables, {.name = "label", .per = Per::kEdge, .of = "edge"}, files.edge_labels, source + "_edge_labels.txt",
             "edges");
  add_attributes(tables, {.name = "attributes", .per = Per::kEdge, .of = "edge"}, files.edge_attributes,
                 source + "_edge_attributes.txt", "edges");
  arrange(tables, "edge.label", order);
  arrange(tables, "edge.attributes", order);
  return tables;
}

GraphTables read_tu(const std::filesystem::path& folder, const std::string& name) {
  const std::string stem = (folder / name).string();
  const auto read = [&](const std::string& part, bool needed) {
    const std::string path = stem + "_" + part + ".txt";
    return needed || std::filesystem::exists(path) ? read_file(path) : std::string();
  };
  const std::string edges = read("A", true), indicator = read("graph_indicator", true),
                    graph_labels = read("graph_labels", false), graph_attributes = read("graph_attributes", false),
                    node_labels = read("node_labels", false), node_attributes = read("node_attributes", false),
                    edge_labels = read("edge_labels", false), edge_attributes = read("edge_attributes", false);
  return parse_tu(
      {edges, indicator, graph_labels, graph_attributes, node_labels, node_attributes, edge_labels, edge_attributes},
      stem);
}

void add_folds(GraphTables& tables, std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array() || json.empty() || json.size() > 1000)
    fail(source, "the file is no list of folds", "", "a JSON list of {test, model_selection}");
  for (size_t k = 0; k < json.size(); ++k) {
    const std::string where = source + ", fold " + std::to_string(k);
    std::vector<uint8_t> split(static_cast<size_t>(tables.graphs), kNoSplit);
    const auto mark = [&](const Json& from, const char* key, Split part) {
      if (!from.is_object() || !from.contains(key) || !from[key].is_array())
        fail(where, std::string("there is no list '") + key + "'");
      for (const Json& item : from[key]) {
        if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() >= tables.graphs)
          fail(where + ", " + key, "a graph has a number that there is not", item.dump().substr(0, 50),
               "a number below " + std::to_string(tables.graphs));
        uint8_t& of = split[item.get<size_t>()];
        if (of != kNoSplit) fail(where + ", " + key, "a graph stands in two parts", item.dump());
        of = part;
      }
    };
    mark(json[k], "test", kTest);
    const Json* inner = json[k].contains("model_selection") ? &json[k]["model_selection"] : nullptr;
    if (!inner || !inner->is_array() || inner->empty()) fail(where, "there is no list 'model_selection'");
    mark((*inner)[0], "train", kTrain);
    mark((*inner)[0], "validation", kValidation);
    tables.set_field(
        Field{.name = "split_" + std::to_string(k), .per = Per::kGraph, .dtype = DType::kU8, .values = split_names()},
        split);
  }
}

}  // namespace ramet::graphs
