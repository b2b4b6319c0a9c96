#include <algorithm>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/read.h"
#include "ramet/graphs/transform.h"
#include "ramet/weights/array_pickle.h"

namespace ramet::graphs {
namespace {

using weights::PickledArray;
using weights::PickledRows;

constexpr int64_t kValidationNodes = 500;
constexpr int64_t kMostFeatureBytes = int64_t{8} << 30;

[[noreturn]] void fail(const std::string& where, const std::string& what, const std::string& found,
                       const std::string& expected) {
  throw FormatError({.what = what, .where = where, .found = found, .expected = expected});
}

/// The numbers of `test_index`, in the order of the file.
std::vector<int64_t> test_nodes(std::string_view text, const std::string& source, int64_t first) {
  Lines lines(text, source + ".test.index");
  std::vector<int64_t> nodes;
  while (lines.next())
    if (!trimmed(lines.line()).empty()) nodes.push_back(lines.whole(lines.line(), first, INT32_MAX - 1));
  return nodes;
}

/// One-hot rows as categories; -1 for rows of zeros.
std::vector<int32_t> labels_of(const PickledArray& rows, const std::string& where) {
  if (rows.shape.rank() != 2) fail(where, "labels that are no matrix", rows.shape.text(), "[nodes, classes]");
  std::vector<int32_t> labels;
  const int64_t classes = rows.shape[1];
  for (int64_t i = 0; i < rows.shape[0]; ++i) {
    int32_t label = -1;
    for (int64_t k = 0; k < classes && label < 0; ++k)
      if (rows.real(i * classes + k) > 0) label = static_cast<int32_t>(k);
    labels.push_back(label);
  }
  return labels;
}

void copy_row(const PickledRows& from, int64_t row, std::vector<float>& to, int64_t at) {
  for (auto e = static_cast<size_t>(from.pointers[static_cast<size_t>(row)]);
       e < static_cast<size_t>(from.pointers[static_cast<size_t>(row) + 1]); ++e)
    to[static_cast<size_t>(at * from.columns_count + from.columns[e])] += from.values[e];
}

}  // namespace

GraphTables parse_planetoid(const PlanetoidFiles& files, const std::string& source) {
  const PickledRows known = weights::read_sparse_pickle(files.allx, source + ".allx");
  const PickledRows test = weights::read_sparse_pickle(files.tx, source + ".tx");
  const PickledArray train_labels = weights::read_array_pickle(files.y, source + ".y");
  const PickledArray known_labels = weights::read_array_pickle(files.ally, source + ".ally");
  const PickledArray test_labels = weights::read_array_pickle(files.ty, source + ".ty");
  const std::vector<int64_t> order = test_nodes(files.test_index, source, known.rows);
  if (std::ssize(order) != test.rows || test.columns_count != known.columns_count)
    fail(source + ".tx", "the test nodes' features do not fit the other files",
         std::to_string(test.rows) + "x" + std::to_string(test.columns_count),
         std::to_string(order.size()) + "x" + std::to_string(known.columns_count));
  // Numbers may be left out; nodes of these numbers have no features, no label and no edge.
  const int64_t nodes = order.empty() ? known.rows : *std::max_element(order.begin(), order.end()) + 1;
  const int64_t most = known.rows + 100 * std::ssize(order);
  if (nodes > most)
    fail(source + ".test.index", "the numbers of test nodes leave out too many", std::to_string(nodes - 1),
         "at most " + std::to_string(most));
  const int64_t width = known.columns_count;
  if (nodes * 4 > kMostFeatureBytes / std::max<int64_t>(1, width))
    fail(source + ".allx", "too many features", std::to_string(nodes) + "x" + std::to_string(width), "at most 8 GiB");

  GraphTables tables = homogeneous_tables();
  tables.graphs = 1;
  tables.nodes[0].ptr = {0, nodes};
  std::vector<float> features(static_cast<size_t>(nodes * width));
  for (int64_t i = 0; i < known.rows; ++i) copy_row(known, i, features, i);
  for (size_t i = 0; i < order.size(); ++i) copy_row(test, static_cast<int64_t>(i), features, order[i]);
  tables.set_field({.name = "x", .of = "node", .shape = Shape{width}}, features);

  std::vector<int32_t> labels(static_cast<size_t>(nodes), -1);
  const std::vector<int32_t> of_known = labels_of(known_labels, source + ".ally"),
                             of_test = labels_of(test_labels, source + ".ty");
  if (std::ssize(of_known) != known.rows || of_test.size() != order.size() ||
      known_labels.shape[1] != test_labels.shape[1] || train_labels.shape.rank() != 2 ||
      train_labels.shape[0] > known.rows)
    fail(source + ".ally", "labels do not fit the features",
         known_labels.shape.text() + ", " + test_labels.shape.text() + ", " + train_labels.shape.text(),
         "as many rows as features");
  std::copy(of_known.begin(), of_known.end(), labels.begin());
  for (size_t i = 0; i < order.size(); ++i) labels[static_cast<size_t>(order[i])] = of_test[i];
  Field y{.name = "y", .of = "node", .dtype = DType::kI32, .missing = true};
  if (known_labels.shape[1] > 1'000'000)
    fail(source + ".ally", "too many classes", known_labels.shape.text(), "at most a million");
  for (int64_t k = 0; k < known_labels.shape[1]; ++k) y.values.push_back(std::to_string(k));
  tables.set_field(std::move(y), labels);

  std::vector<uint8_t> split(static_cast<size_t>(nodes), kNoSplit);
  const int64_t train = train_labels.shape[0];
  for (int64_t i = 0; i < std::min(train + kValidationNodes, known.rows); ++i)
    split[static_cast<size_t>(i)] = i < train ? kTrain : kValidation;
  for (const int64_t node : order) split[static_cast<size_t>(node)] = kTest;
  tables.set_field({.name = "split", .of = "node", .dtype = DType::kU8, .values = split_names()}, split);

  EdgeTable& edges = tables.edges[0];
  for (const auto& [from, to] : weights::read_lists_pickle(files.graph, source + ".graph"))
    for (const int64_t target : to) {
      if (from < 0 || from >= nodes || target < 0 || target >= nodes)
        fail(source + ".graph: " + std::to_string(from) + " -> " + std::to_string(target),
             "an edge names a node that there is not", std::to_string(from < 0 || from >= nodes ? from : target),
             "a number below " + std::to_string(nodes));
      edges.source.push_back(static_cast<int32_t>(from));
      edges.target.push_back(static_cast<int32_t>(target));
    }
  edges.ptr = {0, std::ssize(edges.source)};
  remove_self_loops(tables, "edge");
  remove_duplicates(tables, "edge");
  return tables;
}

GraphTables read_planetoid(const std::filesystem::path& folder, const std::string& name) {
  const std::string stem = (folder / ("ind." + name)).string();
  const MappedFile tx(stem + ".tx"), allx(stem + ".allx"), y(stem + ".y"), ty(stem + ".ty"), ally(stem + ".ally"),
      graph(stem + ".graph"), test_index(stem + ".test.index");
  return parse_planetoid({tx.view(), allx.view(), y.view(), ty.view(), ally.view(), graph.view(), test_index.view()},
                         stem);
}

}  // namespace ramet::graphs
