#include "ramet/graphs/graph_set.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/base/words.h"

namespace ramet::graphs {
namespace {

[[noreturn]] void fail(const std::string& where, std::string what, std::string found = "", std::string expected = "",
                       std::string remedy = "") {
  throw FormatError({.what = std::move(what),
                     .where = where,
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .remedy = std::move(remedy)});
}

void check_ptr(std::span<const int64_t> ptr, int64_t graphs, const std::string& where) {
  if (std::ssize(ptr) != graphs + 1)
    fail(where, "a table of graphs has another length than there are graphs", std::to_string(ptr.size()),
         std::to_string(graphs + 1));
  if (ptr[0] != 0) fail(where, "a table of graphs does not begin at 0", std::to_string(ptr[0]));
  for (size_t g = 1; g < ptr.size(); ++g)
    if (ptr[g] < ptr[g - 1])
      fail(where + ", graph " + std::to_string(g - 1), "a table of graphs descends", std::to_string(ptr[g]),
           "at least " + std::to_string(ptr[g - 1]));
}

/// Brings the edges of a type, and their fields, into the global edge order.
void sort_edges(GraphTables& tables, EdgeTable& edges) {
  const size_t count = edges.source.size();
  const auto before = [&](int64_t a, int64_t b) {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    return edges.target[i] != edges.target[j] ? edges.target[i] < edges.target[j] : edges.source[i] < edges.source[j];
  };
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  bool sorted = true;
  for (size_t g = 0; g + 1 < edges.ptr.size(); ++g) {
    const auto begin = order.begin() + edges.ptr[g], end = order.begin() + edges.ptr[g + 1];
    if (std::is_sorted(begin, end, before)) continue;
    sorted = false;
    std::stable_sort(begin, end, before);
  }
  if (sorted) return;
  const auto arrange = [&](std::vector<int32_t>& values) {
    std::vector<int32_t> moved(count);
    for (size_t i = 0; i < count; ++i) moved[i] = values[static_cast<size_t>(order[i])];
    values = std::move(moved);
  };
  arrange(edges.source);
  arrange(edges.target);
  for (FieldTable& table : tables.fields) {
    if (table.field.per != Per::kEdge || table.field.of != edges.type.key()) continue;
    const auto size = static_cast<size_t>(table.field.value_bytes());
    std::vector<std::byte> moved(table.bytes.size());
    for (size_t i = 0; size > 0 && i < count; ++i)
      std::memcpy(moved.data() + i * size, table.bytes.data() + static_cast<size_t>(order[i]) * size, size);
    table.bytes = std::move(moved);
  }
}

bool is_word(const std::string& name) {
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

template <typename T>
T element_of(std::span<const std::byte> bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

/// Position of the first element that is NaN or infinite, or -1.
template <typename T>
int64_t first_unusable(std::span<const std::byte> bytes, bool missing) {
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(T));
  for (int64_t i = 0; i < count; ++i)
    if (const T value = element_of<T>(bytes, i); !std::isfinite(value) && !(missing && std::isnan(value))) return i;
  return -1;
}

}  // namespace

std::string EdgeType::key() const { return *this == EdgeType{} ? "edge" : source + "/" + name + "/" + target; }

NodeTable& GraphTables::nodes_of(std::string_view type) {
  std::vector<std::string> known;
  for (NodeTable& table : nodes) {
    if (table.type == type) return table;
    known.push_back("'" + table.type + "'");
  }
  throw Error({.what = "there is no such type of nodes",
               .found = "'" + std::string(type) + "'",
               .expected = known.empty() ? "" : "one of " + joined(known)});
}

EdgeTable& GraphTables::edges_of(std::string_view key) {
  std::vector<std::string> known;
  for (EdgeTable& table : edges) {
    if (table.type.key() == key) return table;
    known.push_back("'" + table.type.key() + "'");
  }
  throw Error({.what = "there is no such type of edges",
               .found = "'" + std::string(key) + "'",
               .expected = known.empty() ? "" : "one of " + joined(known)});
}

FieldTable* GraphTables::find(std::string_view key) {
  for (FieldTable& table : fields)
    if (table.field.key() == key) return &table;
  return nullptr;
}

void GraphTables::set_field_bytes(Field field, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  FieldTable table{std::move(field), std::vector<std::byte>(begin, begin + bytes)};
  if (FieldTable* const there = find(table.field.key()))
    *there = std::move(table);
  else
    fields.push_back(std::move(table));
}

int64_t GraphTables::count(const Field& field) const {
  if (field.per == Per::kGraph) return graphs;
  if (field.per == Per::kNode) {
    for (const NodeTable& table : nodes)
      if (table.type == field.of) return table.ptr.empty() ? 0 : table.ptr.back();
  } else {
    for (const EdgeTable& table : edges)
      if (table.type.key() == field.of) return std::ssize(table.source);
  }
  return -1;
}

GraphTables homogeneous_tables() {
  return {.graphs = 0, .nodes = {{"node", {0}}}, .edges = {{EdgeType{}, {0}, {}, {}}}, .fields = {}};
}

GraphSet::GraphSet(GraphTables tables, const std::string& source) : source_(source), graphs_(tables.graphs) {
  // Sizes come first: sorting relies on them.
  for (const EdgeTable& edges : tables.edges) {
    check_ptr(edges.ptr, graphs_, source + ": " + edges.type.key());
    if (edges.ptr.back() != std::ssize(edges.source) || edges.source.size() != edges.target.size())
      fail(source + ": " + edges.type.key(), "the numbers of sources, of targets and of edges of all graphs differ",
           std::to_string(edges.source.size()) + ", " + std::to_string(edges.target.size()) + " and " +
               std::to_string(edges.ptr.back()));
  }
  for (const FieldTable& table : tables.fields)
    if (const int64_t count = tables.count(table.field);
        count < 0 || std::ssize(table.bytes) != count * table.field.value_bytes())
      fail(source + ": " + table.field.key(), "a field has another number of values than what it belongs to",
           std::to_string(table.bytes.size()) + " bytes",
           std::to_string(std::max<int64_t>(0, count)) + " values of " + std::to_string(table.field.value_bytes()));
  for (EdgeTable& edges : tables.edges) sort_edges(tables, edges);
  const auto owned = std::make_shared<GraphTables>(std::move(tables));
  for (const NodeTable& nodes : owned->nodes) {
    node_types_.push_back(nodes.type);
    node_ptr_.emplace_back(nodes.ptr);
    host_bytes_ += std::ssize(nodes.ptr) * 8;
  }
  for (const EdgeTable& edges : owned->edges) {
    edge_types_.push_back(edges.type);
    edge_ptr_.emplace_back(edges.ptr);
    sources_.emplace_back(edges.source);
    targets_.emplace_back(edges.target);
    host_bytes_ += std::ssize(edges.ptr) * 8 + std::ssize(edges.source) * 8;
  }
  for (const FieldTable& table : owned->fields) {
    fields_.push_back(table.field);
    values_.emplace_back(table.bytes);
    host_bytes_ += std::ssize(table.bytes);
  }
  names_ = owned->names;
  keepers_.push_back(owned);
  check();
}

void GraphSet::check() const {
  if (graphs_ < 1) fail(source_, "the set has no graph");
  std::set<std::string> keys;
  const auto once = [&](const std::string& key) {
    if (!keys.insert(key).second) fail(source_, "a name stands twice in the schema", "'" + key + "'");
  };
  const auto named = [&](const std::string& name) {
    if (!is_word(name))
      fail(source_, "a name of the schema is none", "'" + name.substr(0, 200) + "'", "letters, digits, '_' and '-'");
  };
  if (node_types_.empty()) fail(source_, "the set has no type of nodes");
  for (size_t i = 0; i < node_types_.size(); ++i) {
    named(node_types_[i]);
    if (node_types_[i] == "graph" || node_types_[i] == "edge")
      fail(source_, "a type of nodes has a name that means something else", "'" + node_types_[i] + "'");
    once(node_types_[i] + ".ptr");
    check_ptr(node_ptr_[i], graphs_, source_ + ": " + node_types_[i]);
  }
  for (size_t i = 0; i < edge_types_.size(); ++i) {
    for (const std::string& name : {edge_types_[i].source, edge_types_[i].name, edge_types_[i].target}) named(name);
    once(edge_types_[i].key() + ".ptr");
    once(edge_types_[i].key() + ".index");
    check_ptr(edge_ptr_[i], graphs_, source_ + ": " + edge_types_[i].key());
    check_edges(i);
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    named(fields_[i].name);
    once(fields_[i].key());
    check_field(i);
  }
  for (const auto& [type, names] : names_)
    if (std::ssize(names) != node_ptr_[node_type(type)].back())
      fail(source_ + ": " + type, "there are not as many names as nodes", std::to_string(names.size()),
           std::to_string(node_ptr_[node_type(type)].back()));
}

void GraphSet::check_edges(size_t type) const {
  const EdgeType& edge = edge_types_[type];
  const std::span<const int64_t> ptr = edge_ptr_[type];
  const std::span<const int64_t> sources = node_ptr_[node_type(edge.source)],
                                 targets = node_ptr_[node_type(edge.target)];
  for (size_t g = 0; g + 1 < ptr.size(); ++g) {
    const int64_t most_source = sources[g + 1] - sources[g], most_target = targets[g + 1] - targets[g];
    for (auto e = static_cast<size_t>(ptr[g]); e < static_cast<size_t>(ptr[g + 1]); ++e) {
      const int32_t source = sources_[type][e], target = targets_[type][e];
      const bool bad_source = source < 0 || source >= most_source;
      if (bad_source || target < 0 || target >= most_target)
        fail(source_ + ": " + edge.key() + " " + std::to_string(source) + " -> " + std::to_string(target) +
                 " of graph " + std::to_string(g),
             "an edge names a node that its graph does not have", std::to_string(bad_source ? source : target),
             "a number below " + std::to_string(bad_source ? most_source : most_target));
      if (e == static_cast<size_t>(ptr[g])) continue;
      const int32_t last_target = targets_[type][e - 1], last_source = sources_[type][e - 1];
      if (target < last_target || (target == last_target && source < last_source))
        fail(source_ + ": " + edge.key() + ", edge " + std::to_string(e),
             "the edges are not in the order of a graph set",
             std::to_string(last_source) + " -> " + std::to_string(last_target) + " before " + std::to_string(source) +
                 " -> " + std::to_string(target),
             "by graph, target and source", "Prepare the set again");
    }
  }
}

void GraphSet::check_field(size_t field) const {
  const Field& of = fields_[field];
  const std::string where = source_ + ": " + of.key();
  const std::span<const std::byte> bytes = values_[field];
  if (of.per == Per::kNode) static_cast<void>(node_type(of.of));
  if (of.per == Per::kEdge) static_cast<void>(edge_type(of.of));
  const int64_t count = of.per == Per::kGraph  ? graphs_
                        : of.per == Per::kNode ? node_ptr_[node_type(of.of)].back()
                                               : edge_ptr_[edge_type(of.of)].back();
  if (std::ssize(bytes) != count * of.value_bytes())
    fail(where, "a field has another number of values than what it belongs to", std::to_string(bytes.size()) + " bytes",
         std::to_string(count) + " values of " + std::to_string(of.value_bytes()) + " bytes");
  int64_t bad = -1;
  if (of.dtype == DType::kF32) bad = first_unusable<float>(bytes, of.missing);
  if (of.dtype == DType::kF64) bad = first_unusable<double>(bytes, of.missing);
  const int64_t width = of.shape.elements();
  const auto place = [&](int64_t element) {
    static constexpr std::string_view kThings[] = {"node ", "edge ", "graph "};
    return where + ", " + std::string(kThings[static_cast<size_t>(of.per)]) + std::to_string(element / width) +
           (width > 1 ? ", element " + std::to_string(element % width) : "");
  };
  if (bad >= 0)
    fail(place(bad), "a field has a value that is not finite", std::to_string(field_number(of, bytes, bad)),
         "finite numbers", of.missing ? "" : "Remove it, or declare that the field has missing values");
  if (of.values.empty()) return;
  if (is_floating(of.dtype)) fail(where, "only integers have names of categories", std::string(name_of(of.dtype)));
  for (int64_t i = 0; i < count * width; ++i)
    if (const double value = field_number(of, bytes, i);
        value >= static_cast<double>(of.values.size()) || value < (of.missing ? -1 : 0))
      fail(place(i), "a category has no name", std::to_string(static_cast<int64_t>(value)),
           "a number below " + std::to_string(of.values.size()));
}

size_t GraphSet::field(std::string_view key) const {
  std::vector<std::string> known;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (fields_[i].key() == key) return i;
    known.push_back("'" + fields_[i].key() + "'");
  }
  throw Error({.what = "the graph set has no such field",
               .where = source_,
               .found = "'" + std::string(key) + "'",
               .expected = known.empty() ? "" : "one of " + joined(known)});
}

bool GraphSet::has(std::string_view key) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return field.key() == key; });
}

size_t GraphSet::node_type(std::string_view type) const {
  for (size_t i = 0; i < node_types_.size(); ++i)
    if (node_types_[i] == type) return i;
  fail(source_, "there is no such type of nodes", "'" + std::string(type.substr(0, 200)) + "'");
}

size_t GraphSet::edge_type(std::string_view key) const {
  for (size_t i = 0; i < edge_types_.size(); ++i)
    if (edge_types_[i].key() == key) return i;
  fail(source_, "there is no such type of edges", "'" + std::string(key.substr(0, 200)) + "'");
}

Hash GraphSet::contents() const {
  Hasher hasher;
  hasher.update(schema_text());
  const auto add = [&](const auto& values) { hasher.update(values.data(), values.size_bytes()); };
  for (const auto& ptr : node_ptr_) add(ptr);
  for (size_t i = 0; i < edge_types_.size(); ++i) add(edge_ptr_[i]), add(sources_[i]), add(targets_[i]);
  for (const auto& values : values_) add(values);
  return hasher.digest();
}

GraphTables GraphSet::tables() const {
  GraphTables tables{.graphs = graphs_, .nodes = {}, .edges = {}, .fields = {}, .names = names_};
  for (size_t i = 0; i < node_types_.size(); ++i)
    tables.nodes.push_back({node_types_[i], {node_ptr_[i].begin(), node_ptr_[i].end()}});
  for (size_t i = 0; i < edge_types_.size(); ++i)
    tables.edges.push_back({edge_types_[i],
                            {edge_ptr_[i].begin(), edge_ptr_[i].end()},
                            {sources_[i].begin(), sources_[i].end()},
                            {targets_[i].begin(), targets_[i].end()}});
  for (size_t i = 0; i < fields_.size(); ++i)
    tables.fields.push_back({fields_[i], {values_[i].begin(), values_[i].end()}});
  return tables;
}

double field_number(const Field& field, std::span<const std::byte> bytes, int64_t i) {
  switch (field.dtype) {
    case DType::kF32: return element_of<float>(bytes, i);
    case DType::kF64: return element_of<double>(bytes, i);
    case DType::kF16: return f16_to_f32(element_of<uint16_t>(bytes, i));
    case DType::kBF16: return bf16_to_f32(element_of<uint16_t>(bytes, i));
    case DType::kI8: return element_of<int8_t>(bytes, i);
    case DType::kI16: return element_of<int16_t>(bytes, i);
    case DType::kI32: return element_of<int32_t>(bytes, i);
    case DType::kI64: return static_cast<double>(element_of<int64_t>(bytes, i));
    case DType::kBool:
    case DType::kU8: return element_of<uint8_t>(bytes, i);
    case DType::kU16: return element_of<uint16_t>(bytes, i);
    case DType::kU32: return element_of<uint32_t>(bytes, i);
    case DType::kU64: return static_cast<double>(element_of<uint64_t>(bytes, i));
    default:
      throw Error({.what = "a field's type has no numbers that can be read",
                   .where = field.key(),
                   .found = std::string(name_of(field.dtype))});
  }
}

std::vector<float> field_floats(const Field& field, std::span<const std::byte> bytes) {
  const auto count = static_cast<int64_t>(bytes.size() / size_of(field.dtype));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(field_number(field, bytes, i));
  return values;
}

}  // namespace ramet::graphs
