#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/base/shape.h"

namespace ramet::graphs {

/// A relation between nodes of two types. A homogeneous set has one, of the default names.
struct EdgeType {
  std::string source = "node", name = "edge", target = "node";
  /// "edge" for the default names, otherwise "author/writes/paper".
  std::string key() const;
  friend bool operator==(const EdgeType&, const EdgeType&) = default;
};

/// What a field has one value for.
enum class Per { kNode, kEdge, kGraph };

/// A named property of all nodes of a type, of all edges of a type, or of all graphs.
struct Field {
  std::string name;
  Per per = Per::kNode;
  std::string of{};  ///< type of the nodes, or key of the edges; "" for fields of graphs
  DType dtype = DType::kF32;
  Shape shape{};                      ///< of one value; rank 0: a number
  bool missing = false;               ///< whether a float may be NaN, and a category -1: the value is not known
  std::vector<std::string> values{};  ///< of integers: what 0, 1, 2, ... mean
  std::string unit{};

  /// "node.x", "author/writes/paper.year", "graph.y".
  std::string key() const { return (per == Per::kGraph ? "graph" : of) + "." + name; }
  int64_t value_bytes() const { return shape.elements() * static_cast<int64_t>(size_of(dtype)); }
};

/// Nodes of a type: those of graph g are numbers [ptr[g], ptr[g+1]) of all.
struct NodeTable {
  std::string type = "node";
  std::vector<int64_t> ptr;
};
/// Edges of a type. Node numbers count from 0 in each graph.
struct EdgeTable {
  EdgeType type{};
  std::vector<int64_t> ptr;
  std::vector<int32_t> source, target;
};
struct FieldTable {
  Field field;
  std::vector<std::byte> bytes;  ///< row-major, values in order of nodes, edges or graphs
};

/// A graph set under construction: what readers give and transforms change.
struct GraphTables {
  int64_t graphs = 0;
  std::vector<NodeTable> nodes;
  std::vector<EdgeTable> edges;
  std::vector<FieldTable> fields;
  std::map<std::string, std::vector<std::string>> names{};  ///< of nodes, by their type, where the data name them
  std::vector<std::string> notes{};                         ///< what a reader left out, for people

  /// Throws Error naming those there are.
  NodeTable& nodes_of(std::string_view type);
  EdgeTable& edges_of(std::string_view key);
  /// Null where there is none; `key` as Field::key gives it.
  FieldTable* find(std::string_view key);
  /// Adds a field, or replaces the field of that key.
  template <typename T>
  void set_field(Field field, const std::vector<T>& values) {
    set_field_bytes(std::move(field), values.data(), values.size() * sizeof(T));
  }
  void set_field_bytes(Field field, const void* data, size_t bytes);
  /// How many values a field has.
  int64_t count(const Field& field) const;
};

/// An empty homogeneous set: one type of nodes and one of edges, without graphs.
GraphTables homogeneous_tables();

/// Graphs with a schema, immutable: in memory, or mapped from a file.
///
/// Edges are in the *global edge order*: by graph, then by target, then by source; edges of one source and one target
/// (duplicates are allowed, and count each) keep the order in which they were given. Sums over edges follow this order.
class GraphSet {
 public:
  /// Sorts the edges and checks everything. `source` names the data in messages. Throws Error for a node number outside
  /// its graph, for tables that contradict each other, for a NaN or an infinity in a float field that has no missing
  /// values, and for a category without a name.
  GraphSet(GraphTables tables, const std::string& source);
  /// Maps a file that `save` wrote, and checks it as above. Throws Error naming the file.
  static GraphSet open(const std::filesystem::path& path);

  /// Writes a safetensors file: tensors "TYPE.ptr", "EDGE.ptr" i64 [graphs + 1], "EDGE.index" i32 [2, edges] (row 0:
  /// the sources), and one tensor a field under its key. The metadata "ramet.graphs" is the schema as JSON. Equal sets
  /// give equal files. The file is replaced whole or not at all.
  void save(const std::filesystem::path& path) const;

  int64_t graphs() const { return graphs_; }
  const std::vector<std::string>& node_types() const { return node_types_; }
  const std::vector<EdgeType>& edge_types() const { return edge_types_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::map<std::string, std::vector<std::string>>& names() const { return names_; }
  bool homogeneous() const { return node_types_.size() == 1 && edge_types_.size() == 1; }

  /// By position in the lists above; graph g has [ptr[g], ptr[g+1]).
  std::span<const int64_t> node_ptr(size_t type) const { return node_ptr_[type]; }
  std::span<const int64_t> edge_ptr(size_t type) const { return edge_ptr_[type]; }
  std::span<const int32_t> sources(size_t type) const { return sources_[type]; }
  std::span<const int32_t> targets(size_t type) const { return targets_[type]; }
  std::span<const std::byte> bytes(size_t field) const { return values_[field]; }
  /// Position of the field of that key; Error naming those there are.
  size_t field(std::string_view key) const;
  bool has(std::string_view key) const;
  /// Positions of a field's type of nodes or edges in the lists above.
  size_t node_type(std::string_view type) const;
  size_t edge_type(std::string_view key) const;

  /// Hash of the schema and of all contents.
  Hash contents() const;
  /// Memory that the set takes; 0 for what is mapped.
  int64_t host_bytes() const { return host_bytes_; }
  const std::string& source() const { return source_; }
  /// A copy to change.
  GraphTables tables() const;
  /// The schema as JSON.
  std::string schema_text() const;

 private:
  GraphSet() = default;
  void check() const;
  void check_edges(size_t type) const;
  void check_field(size_t field) const;

  std::string source_;
  int64_t graphs_ = 0;
  std::vector<std::string> node_types_;
  std::vector<EdgeType> edge_types_;
  std::vector<Field> fields_;
  std::map<std::string, std::vector<std::string>> names_;
  std::vector<std::span<const int64_t>> node_ptr_, edge_ptr_;
  std::vector<std::span<const int32_t>> sources_, targets_;
  std::vector<std::span<const std::byte>> values_;
  std::vector<std::shared_ptr<const void>> keepers_;
  int64_t host_bytes_ = 0;
};

/// Element i of a field, as a number.
double field_number(const Field& field, std::span<const std::byte> bytes, int64_t element);
/// A field's values as floats; integers are exact up to 2^24.
std::vector<float> field_floats(const Field& field, std::span<const std::byte> bytes);

}  // namespace ramet::graphs
