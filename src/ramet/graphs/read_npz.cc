#include <algorithm>
#include <set>

#include "ramet/base/error_types.h"
#include "ramet/base/words.h"
#include "ramet/data/arrays.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/read.h"
#include "ramet/weights/array_pickle.h"
#include "ramet/weights/zip_file.h"

namespace ramet::graphs {
namespace {

using weights::PickledArray;
using weights::PickledRows;

constexpr uint64_t kMostEntry = uint64_t{4} << 30;
constexpr int64_t kMostFeatures = int64_t{1} << 31;

class NpzReader {
 public:
  explicit NpzReader(const std::filesystem::path& path) : source_(path.string()), zip_(path, "a .npz of one graph") {}

  GraphTables read() {
    GraphTables tables = homogeneous_tables();
    EdgeTable& edges = tables.edges[0];
    int64_t nodes = 0;
    add_edges(edges, nodes);
    add_features(tables, nodes);
    tables.graphs = 1;
    tables.nodes[0].ptr = {0, nodes};
    edges.ptr = {0, std::ssize(edges.source)};
    add_edge_fields(tables);
    add_labels(tables, nodes);
    add_split(tables, nodes);
    if (const std::string left = left_out(); !left.empty())
      tables.notes.push_back(source_ + ": entries that are not read: " + left);
    return tables;
  }

 private:
  [[noreturn]] void fail(const std::string& entry, const std::string& what, const std::string& found = "",
                         const std::string& expected = "") const {
    throw FormatError({.what = what, .where = source_ + ": " + entry, .found = found, .expected = expected});
  }
  bool has(const std::string& name) const { return zip_.has(name + ".npy"); }
  std::string bytes(const std::string& name) {
    read_.insert(name + ".npy");
    return zip_.read(name + ".npy", kMostEntry);
  }
  /// Names of the entries that nothing of the set has come from.
  std::string left_out() const {
    std::vector<std::string> names;
    for (const std::string& name : zip_.names())
      if (!read_.contains(name)) names.push_back(name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name);
    return listed(names);
  }
  static std::string type_text(const PickledArray& array) {
    return std::string(name_of(array.dtype)) + array.shape.text();
  }

  /// Sets `nodes` where the edges tell it.
  void add_edges(EdgeTable& edges, int64_t& nodes) {
    if (has("edge_index")) {
      const PickledArray index = array("edge_index");
      if (index.shape.rank() != 2 || index.shape[0] != 2 || is_floating(index.dtype))
        fail("edge_index", "the array is no list of edges", type_text(index), "integers [2, edges]");
      for (int64_t e = 0; e < index.shape[1]; ++e) add_edge(edges, index.whole(e), index.whole(index.shape[1] + e));
      return;
    }
    const PickledRows adjacency = matrix("adj_matrix", "adj");
    if (adjacency.rows != adjacency.columns_count)
      fail("adj", "the adjacency matrix is not square", std::to_string(adjacency.rows),
           std::to_string(adjacency.columns_count));
    nodes = adjacency.rows;
    for (int64_t i = 0; i < nodes; ++i)
      for (auto e = static_cast<size_t>(adjacency.pointers[static_cast<size_t>(i)]);
           e < static_cast<size_t>(adjacency.pointers[static_cast<size_t>(i) + 1]); ++e)
        add_edge(edges, i, adjacency.columns[e]);
    // Entries that are all 1 say no more than that there are edges.
    if (std::any_of(adjacency.values.begin(), adjacency.values.end(), [](float value) { return value != 1; }))
      weights_ = adjacency.values;
  }

  void add_edge_fields(GraphTables& tables) {
    const int64_t edges = std::ssize(tables.edges[0].source);
    const auto add = [&](const std::string& entry, const std::string& name, int most_rank) {
      if (!has(entry)) return;
      const PickledArray values = array(entry);
      if (values.shape.rank() < 1 || values.shape.rank() > most_rank || values.shape[0] != edges)
        fail(entry, "there is not one row an edge", type_text(values), "[" + std::to_string(edges) + "]");
      std::vector<float> floats;
      for (int64_t i = 0; i < values.elements(); ++i) floats.push_back(static_cast<float>(values.real(i)));
      Field field{.name = name, .per = Per::kEdge, .of = "edge"};
      if (values.shape.rank() == 2) field.shape = Shape{values.shape[1]};
      tables.set_field(std::move(field), floats);
    };
    if (!weights_.empty()) tables.set_field({.name = "weight", .per = Per::kEdge, .of = "edge"}, weights_);
    add("edge_weight", "weight", 1);
    add("edge_attr", "attributes", 2);
  }

  void add_labels(GraphTables& tables, int64_t nodes) {
    for (const char* name : {"node_label", "labels", "y"}) {
      if (!has(name)) continue;
      const PickledArray labels = array(name);
      if (labels.shape.rank() != 1 || labels.elements() != nodes || is_floating(labels.dtype))
        fail(name, "there is not one whole number a node", type_text(labels),
             "integers [" + std::to_string(nodes) + "]");
      std::vector<int64_t> values;
      for (int64_t i = 0; i < nodes; ++i) values.push_back(labels.whole(i));
      add_categories(tables, {.name = "y", .of = "node"}, values);
      return;
    }
  }

  /// The masks of a split, with one entry a node. A mask of another shape, such as one of several splits, stays unread.
  void add_split(GraphTables& tables, int64_t nodes) {
    std::vector<uint8_t> split(static_cast<size_t>(nodes), kNoSplit);
    bool any = false;
    for (const auto& [name, part] :
         {std::pair("train_mask", kTrain), std::pair("val_mask", kValidation), std::pair("test_mask", kTest)}) {
      if (!has(name)) continue;
      const PickledArray mask = array(name);
      if (mask.shape.rank() != 1 || mask.elements() != nodes || is_floating(mask.dtype)) {
        read_.erase(std::string(name) + ".npy");
        continue;
      }
      any = true;
      for (size_t i = 0; i < split.size(); ++i) {
        if (mask.whole(static_cast<int64_t>(i)) == 0) continue;
        if (split[i] != kNoSplit)
          fail(name, "a node is in two parts of the split", "node " + std::to_string(i), "at most one of the masks");
        split[i] = part;
      }
    }
    if (any) tables.set_field({.name = "split", .of = "node", .dtype = DType::kU8, .values = split_names()}, split);
  }

  void add_edge(EdgeTable& edges, int64_t from, int64_t to) const {
    if (from < 0 || to < 0 || from >= INT32_MAX || to >= INT32_MAX)
      fail("edges", "an edge names a node that there is not", std::to_string(from) + " -> " + std::to_string(to));
    edges.source.push_back(static_cast<int32_t>(from));
    edges.target.push_back(static_cast<int32_t>(to));
  }

  PickledArray array(const std::string& name) {
    const std::string file = bytes(name), where = source_ + ": " + name;
    if (const auto pickle = npy_pickle(file, where)) return weights::read_array_pickle(*pickle, where);
    const ArrayColumn column = parse_npy(file, where);
    const auto* data = reinterpret_cast<const char*>(column.data);
    return {dtype_from_name(column.stored), column.shape,
            std::string(data, static_cast<size_t>(column.shape.elements() * stored_size(column.stored)))};
  }

  /// The entry `whole`, a pickled matrix; or the entries PREFIX_data, PREFIX_indices, PREFIX_indptr and PREFIX_shape.
  PickledRows matrix(const std::string& whole, const std::string& prefix) {
    if (has(whole)) {
      const std::string file = bytes(whole), where = source_ + ": " + whole;
      const auto pickle = npy_pickle(file, where);
      if (!pickle) fail(whole, "the entry holds no sparse matrix");
      return weights::read_sparse_pickle(*pickle, where);
    }
    const PickledArray shape = array(prefix + "_shape"), columns = array(prefix + "_indices"),
                       pointers = array(prefix + "_indptr"), values = array(prefix + "_data");
    if (shape.elements() != 2 || shape.whole(0) < 0 || shape.whole(1) < 0 || is_floating(columns.dtype) ||
        is_floating(pointers.dtype) || columns.elements() != values.elements() ||
        pointers.elements() != shape.whole(0) + 1)
      fail(prefix + "_indptr", "the arrays are no sparse matrix", pointers.shape.text());
    PickledRows rows{shape.whole(0), shape.whole(1), {}, {}, {}};
    for (int64_t i = 0; i < pointers.elements(); ++i) {
      rows.pointers.push_back(pointers.whole(i));
      if (rows.pointers.back() < (i == 0 ? 0 : rows.pointers[static_cast<size_t>(i) - 1]) ||
          rows.pointers.back() > columns.elements())
        fail(prefix + "_indptr", "the rows do not cover the entries", std::to_string(rows.pointers.back()));
    }
    if (rows.pointers.front() != 0 || rows.pointers.back() != columns.elements())
      fail(prefix + "_indptr", "the rows do not cover the entries", std::to_string(rows.pointers.back()));
    for (int64_t i = 0; i < columns.elements(); ++i) {
      rows.columns.push_back(columns.whole(i));
      if (rows.columns.back() < 0 || rows.columns.back() >= rows.columns_count)
        fail(prefix + "_indices", "an entry lies outside the matrix", std::to_string(rows.columns.back()));
      rows.values.push_back(static_cast<float>(values.real(i)));
    }
    return rows;
  }

  /// Sets `nodes` where the edges do not tell it.
  void add_features(GraphTables& tables, int64_t& nodes) {
    std::vector<float> values;
    int64_t rows = 0, width = 0;
    if (has("x")) {
      const PickledArray x = array("x");
      if (x.shape.rank() != 2) fail("x", "the features are no matrix", x.shape.text(), "[nodes, features]");
      rows = x.shape[0], width = x.shape[1];
      for (int64_t i = 0; i < x.elements(); ++i) values.push_back(static_cast<float>(x.real(i)));
    } else if (has("node_attr") || has("attr_matrix") || has("attr_data")) {
      const PickledRows x = matrix(has("node_attr") ? "node_attr" : "attr_matrix", "attr");
      rows = x.rows, width = x.columns_count;
      if (rows > kMostFeatures / std::max<int64_t>(1, width))
        fail("attr", "too many features", std::to_string(rows) + "x" + std::to_string(width), "at most 8 GiB");
      values.resize(static_cast<size_t>(rows * width));
      for (int64_t i = 0; i < rows; ++i)
        for (auto e = static_cast<size_t>(x.pointers[static_cast<size_t>(i)]);
             e < static_cast<size_t>(x.pointers[static_cast<size_t>(i) + 1]); ++e)
          values[static_cast<size_t>(i * width + x.columns[e])] += x.values[e];
    } else {
      if (nodes == 0) fail("x", "the file has neither features nor an adjacency matrix: it has no nodes");
      return;
    }
    if (nodes != 0 && nodes != rows)
      fail("x", "there is not one row of features a node", std::to_string(rows), std::to_string(nodes));
    nodes = rows;
    tables.nodes[0].ptr = {0, nodes};
    tables.set_field({.name = "x", .of = "node", .shape = Shape{width}}, values);
  }

  std::string source_;
  weights::ZipFile zip_;
  std::set<std::string> read_;  ///< names of entries
  std::vector<float> weights_;  ///< of edges, as the adjacency matrix has them
};

}  // namespace

GraphTables read_npz(const std::filesystem::path& path) { return NpzReader(path).read(); }

}  // namespace ramet::graphs
